"""Owns the choice of a threshold that keeps a risk: upper bounds of a risk, and fixed-sequence testing with them."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number, require
from coe_agents.evaluation.metrics.tallies import FloatArray, check_shares
from coe_agents.uncertainty.ties import TIE

_BETS: FloatArray = np.array([0.2, 0.4, 0.6, 0.8, 0.95])
"""The shares of its capital that a bet for a kept risk loses with one wrong answer of the highest weight."""
_N_STEPS = 50
"""How many thresholds are tested at most, at equal steps of the number of questions that they answer."""
_LIKELY = 0.9
"""The probability with which an uncertainty that errs half as often as is allowed passes the first test."""


class ThresholdChoice(NamedTuple):
    """The threshold with the most coverage that keeps the risk; all its questions count as `choose_threshold` says.

    Attributes:
        threshold: None if none keeps it.
        n_wrong: Shares added up and rounded up.
        bound: The upper confidence bound of its risk; None without a threshold.
    """

    threshold: float | None
    n_answered: int
    n_wrong: int
    bound: float | None


NO_THRESHOLD = ThresholdChoice(None, 0, 0, None)


def risk_bound(n_wrong: int, n_answered: int, *, confidence: float) -> float:
    """Clopper-Pearson upper bound of a risk: it lies below the true risk with probability at most 1 - confidence.

    The `confidence` quantile of Beta(n_wrong + 1, n_answered - n_wrong); 1.0 where nothing, or nothing right, was
    answered.

    >>> round(risk_bound(0, 22, confidence=0.9), 4)  # 1 - 0.1 ** (1 / 22)
    0.0994
    """
    if n_wrong >= n_answered:
        return 1.0
    # here, since importing it takes as long as scoring a thousand questions
    from scipy.stats import beta

    return float(beta.ppf(confidence, n_wrong + 1, n_answered - n_wrong))


class _Ranked(NamedTuple):
    """Questions from the surest on: their uncertainties, and how many of so many are wrong, as a sum of shares."""

    rising: FloatArray
    sums_wrong: FloatArray

    @classmethod
    def of(cls, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> "_Ranked":
        right, scores = check_shares(correct, uncertainty)
        order = np.argsort(scores, kind="stable")
        return cls(scores[order], np.cumsum(1.0 - right[order]))

    def n_wrong(self, n: int) -> int:
        return round_up(float(self.sums_wrong[n - 1]))

    def risk_bound(self, n: int, confidence: float) -> float:
        return risk_bound(self.n_wrong(n), n, confidence=confidence)


def weighted_risk_bound(
    losses: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    confidence: float,
    least: float | None = None,
) -> float:
    r"""Upper confidence bound of a risk from cases that were seen with known, unequal probabilities, in [0, 1].

    Against "the risk is at least r" one bets on right answers. With the losses x_i, the probabilities p_i >= c,

        e(r) = 1/5 \sum_b \prod_i (1 + b c / (1 - r) (r - x_i) / p_i),    b in {0.2, 0.4, 0.6, 0.8, 0.95},

    has an expected value of at most 1 if the risk is at least r, since E[seen / p (r - x)] = r - E[x]; so e(r) reaches
    1 / (1 - confidence) with probability at most 1 - confidence (Markov). e rises with r, and the bound is the least r
    at which it reaches that; 1 where the cases show nothing. Weighted losses are no counts, for which a binomial bound
    would be wrong. For equal probabilities the bound is somewhat above that of Clopper and Pearson. It does not depend
    on the order of the cases.

    Args:
        losses: Shape `(n,)`, in [0, 1]: 1 for a wrong answer.
        probabilities: Shape `(n,)`, in (0, 1].
        confidence: In (0, 1).
        least: The least probability c that a case may have, set before the cases were seen; default: the least of the
            given ones, which is right where these are audit rates, and not computed from a case.

    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).

    >>> round(weighted_risk_bound([0] * 50, [1] * 50, confidence=0.9), 3)  # Clopper-Pearson: 0.045
    0.064
    """
    x = np.asarray(losses, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    are_alike = x.ndim == 1 and x.shape == p.shape
    are_losses = (x >= 0) & (x <= 1)
    are_probabilities = (p > 0) & (p <= 1)
    if not (are_alike and are_losses.all() and are_probabilities.all()):
        raise ValueError(
            '"losses" must be in [0, 1] and "probabilities" in (0, 1], of one length; got others. '
            "Pass one of each for every case"
        )
    number(confidence, '"confidence"', above=0, below=1, advice="Pass 0.9, for example")
    if not x.size:
        return 1.0
    c = float(p.min()) if least is None else least
    # otherwise a bet could lose more than it has
    must = '"least" must be above 0 and at most each probability'
    require(0.0 < c <= p.min(), must, least, "Pass the lowest audit rate")

    limit = -math.log(1.0 - confidence)

    def excess(r: float) -> float:
        return _log_evidence(x, c / p, r) - limit

    highest = 1.0 - 1e-9
    if excess(highest) < 0.0:
        return 1.0
    # here, since importing it takes as long as scoring a thousand questions
    from scipy.optimize import brentq

    return float(brentq(excess, 0.0, highest, xtol=1e-9))


@lru_cache(maxsize=1024)
def first_count(n: int, *, risk: float, confidence: float) -> int | None:
    """The number of answered questions at which the fixed sequence of tests starts, among `n`.

    It is the larger of two counts k: the first at which floor(k risk / 2) errors pass `risk_bound`, or, where `n` is
    too small for that, the first that passes with none; and the first at which an uncertainty that errs half as often
    as is allowed passes with probability 0.9, at most n / 4. The former alone starts at 12 questions at risk 0.3, where
    two errors end the search: over halves of eight sets of real answers the mean coverage was 0.12, and 0.28 with both.
    None where not even `n` right answers pass: (1 - risk)^n > 1 - confidence.

    >>> first_count(100, risk=0.1, confidence=0.9), first_count(10, risk=0.1, confidence=0.9)
    (38, None)
    """
    from scipy.stats import binom

    counts = np.arange(1, n + 1)
    # the tolerance keeps (1 - risk)^n == 1 - confidence on this side of the level
    level = (1.0 - confidence) * (1.0 + 1e-9)
    # of each count, the most errors that pass; -1: none do
    quantiles = binom.ppf(level, counts, risk)
    most = np.where(binom.cdf(quantiles, counts, risk) <= level, quantiles, quantiles - 1.0)

    half_as_many = np.floor(counts * risk / 2.0 + 1e-9)
    passes = half_as_many <= most
    if not passes.any():
        passes = most >= 0.0
    if not passes.any():
        return None
    earliest = int(counts[passes.argmax()])

    passes_probably = binom.cdf(most, counts, risk / 2.0) >= _LIKELY
    first_probable = n
    if passes_probably.any():
        first_probable = int(counts[passes_probably.argmax()])
    return max(earliest, min(first_probable, n // 4))


def first_audited_count(scale: npt.ArrayLike, *, risk: float, confidence: float) -> int | None:
    """The number of cases at which the sequence of tests starts; None where not even right answers alone would pass.

    `scale`, shape `(n,)`, is c / p of each case, the least uncertain first, in (0, 1]. The number is the first k at
    which the evidence of the k least uncertain cases is expected to pass if they err half as often as is allowed, and
    one error more. If there is no such k, the further error is left out; if there is still none, the first k at which
    right answers alone pass.

    >>> [first_audited_count(np.ones(n), risk=0.1, confidence=0.9) for n in (20, 100, 1000)]
    [None, 32, 239]
    """
    # the logarithm of each bet's capital after k cases, shape `(n_bets, n)`
    scaled = _BETS[:, None] * np.asarray(scale, dtype=np.float64)
    if_right = np.log1p(scaled * risk / (1.0 - risk)).cumsum(axis=1)
    if_wrong = np.log1p(-scaled).cumsum(axis=1)
    expected = (1.0 - risk / 2.0) * if_right + risk / 2.0 * if_wrong
    with_one_more_error = expected + np.log1p(-_BETS)[:, None]

    limit = -np.log(1.0 - confidence)
    for log_capital in (with_one_more_error, expected, if_right):
        passes = _mean_of_bets(log_capital) >= limit
        if passes.any():
            return int(passes.argmax()) + 1
    return None


def choose_threshold(
    *, correct: npt.ArrayLike, uncertainty: npt.ArrayLike, risk: float, confidence: float
) -> ThresholdChoice:
    """Chooses the highest threshold whose risk is shown to be at most `risk`, by tests that allow for the choice.

    Fixed-sequence testing (Angelopoulos et al., "Learn then test", 2021) over numbers of answered questions: the k
    least uncertain questions are tested by `risk_bound`, for k from `first_count` in steps of n / 50 to n, and the last
    k before the first failure is chosen. Which k are tested depends on n alone. Where the risk rises with the
    uncertainty, which is what a useful uncertainty does, let u be where the risk of answering up to it passes `risk`.
    For the search to go wrong, the first k that it tests and whose threshold lies beyond u must pass; its errors are at
    least those of k draws at `risk`, whatever the other k are, so that this happens with a probability of at most
    1 - confidence.

    The threshold is the uncertainty of the k-th question, so that it never lies beyond what was seen, and no strictly
    increasing transformation of the uncertainty changes which questions are answered. Uncertainties within 1e-9 of it
    are answered, too. A partly right answer (mixed labels) counts by its share that is wrong, and the sum is rounded
    up: a sum of values in [0, 1] varies no more than that of as many zeros and ones of the same mean (Hoeffding, 1963).

    Args:
        correct: Shape `(n,)`, in [0, 1]: of the questions that can be answered at all, so of no tie.
        uncertainty: Shape `(n,)`; higher = less sure. A question is answered where it is at most the threshold.
        risk: In (0, 1).
        confidence: In (0, 1).

    Raises:
        ValueError: The arguments differ in length, are empty, or hold something else.

    >>> few, many = ([True] * n for n in (15, 50))
    >>> choose_threshold(correct=few, uncertainty=[0.1] * 15, risk=0.1, confidence=0.9).threshold
    >>> choose_threshold(correct=many, uncertainty=[0.1] * 50, risk=0.1, confidence=0.9).threshold
    0.1
    """
    ranked = _Ranked.of(correct, uncertainty)
    start = first_count(ranked.rising.size, risk=risk, confidence=confidence)
    if start is None:
        return NO_THRESHOLD

    def passes(n: int) -> bool:
        return ranked.risk_bound(n, confidence) <= risk * (1.0 + 1e-9)

    last = last_passing(ranked.rising, start, passes)
    if last is None:
        return NO_THRESHOLD
    threshold, n = last
    return ThresholdChoice(threshold, n, ranked.n_wrong(n), ranked.risk_bound(n, confidence))


class Shortfall(NamedTuple):
    """How near a set of questions came to a threshold that keeps a risk.

    Attributes:
        n_surest: The number of the surest questions whose risk has the lowest upper bound.
        n_wrong: How many of these were wrong.
        bound: That bound.
        n_more: About how many more labelled questions would do beside these, if the surest of them err as often; None
            if they err too often for any number.
        first: The first threshold that was tested, and failed; None if there are too few questions to test one.
        n_answerable: The number of questions, all of which have an answer that could be given.
    """

    n_surest: int
    n_wrong: int
    bound: float
    n_more: int | None
    first: ThresholdChoice | None
    n_answerable: int


def shortfall(
    *, correct: npt.ArrayLike, uncertainty: npt.ArrayLike, risk: float, confidence: float
) -> Shortfall:
    """Returns how near a set of questions came to a threshold; the arguments are those of `choose_threshold`.

    It is a hint for the user, and no choice: the surest questions are chosen by their verdicts. Uncertainties within
    1e-9 of each other are counted together, as `choose_threshold` tests them.

    >>> shortfall(correct=[True] * 15, uncertainty=[0.1] * 15, risk=0.1, confidence=0.9).n_more
    7
    """
    ranked = _Ranked.of(correct, uncertainty)
    rising = ranked.rising
    n_questions = rising.size

    first: ThresholdChoice | None = None
    start = first_count(n_questions, risk=risk, confidence=confidence)
    if start is not None:
        threshold = float(rising[start - 1])
        n_answered = int(np.searchsorted(rising, threshold + TIE, side="right"))
        bound = ranked.risk_bound(n_answered, confidence)
        first = ThresholdChoice(threshold, n_answered, ranked.n_wrong(n_answered), bound)

    # where one uncertainty ends: no threshold answers fewer of those that share it
    counts = np.unique(np.searchsorted(rising, rising + TIE, side="right")).tolist()
    bounds = [ranked.risk_bound(count, confidence) for count in counts]
    lowest = min(bounds)
    best = bounds.index(lowest)
    n_surest = counts[best]
    n_wrong = ranked.n_wrong(n_surest)
    rate = n_wrong / n_surest

    def suffices(size: int) -> bool:
        """Whether these and further ones, so many in all, would do: the first test among the surest would pass."""
        start = first_count(size, risk=risk, confidence=confidence)
        if start is None:
            return False
        for count in counts[: best + 1]:
            n_tested = count * size // n_questions
            if n_tested < start:
                continue
            # the errors of these questions stay; only the further ones err at that rate
            n_further = n_tested - count
            n_errors = ranked.n_wrong(count) + math.ceil(rate * n_further - 1e-9)
            return risk_bound(n_errors, n_tested, confidence=confidence) <= risk
        return False

    n_more: int | None = None
    if rate < risk:
        for step in range(1, 95):  # up to a hundred times as many
            size = math.ceil(n_questions * 1.05**step)
            if suffices(size):
                n_more = size - n_questions
                break
    return Shortfall(n_surest, n_wrong, lowest, n_more, first, n_questions)


def choose_audited_threshold(
    *,
    correct: npt.ArrayLike,
    uncertainty: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    risk: float,
    confidence: float,
) -> ThresholdChoice | None:
    """Chooses the highest threshold that keeps the risk, from cases that were seen with unequal probabilities.

    The fixed sequence of `choose_threshold` with `weighted_risk_bound` in place of a binomial bound, from
    `first_audited_count` on. Which counts are tested depends on uncertainties and probabilities, never on verdicts. Let
    u be where the risk of answering up to it passes `risk`. The first tested set that reaches beyond u holds all cases
    up to u, whose evidence has an expected value of at most 1, and further ones, each of which is wrong with a
    probability of at least `risk` if the risk rises with the uncertainty: so its evidence has one of at most 1, too,
    and passes with probability at most 1 - confidence. `n_wrong` of the result counts errors without weights.

    The arguments are as in `choose_threshold`; `probabilities`, shape `(n,)` and in (0, 1], are those with which each
    case was seen. None where not even right answers alone would pass.
    """
    scores = np.asarray(uncertainty, dtype=np.float64)
    order = np.argsort(scores, kind="stable")
    losses = 1.0 - np.asarray(correct, dtype=np.float64)[order]
    seen = np.asarray(probabilities, dtype=np.float64)[order]
    least = float(seen.min())
    scale = least / seen
    start = first_audited_count(scale, risk=risk, confidence=confidence)
    if start is None:
        return None

    def passes(n: int) -> bool:
        return keeps_risk(losses[:n], scale[:n], risk=risk, confidence=confidence)

    last = last_passing(scores[order], start, passes)
    if last is None:
        return NO_THRESHOLD
    threshold, n = last
    bound = weighted_risk_bound(losses[:n], seen[:n], confidence=confidence, least=least)
    n_wrong = round_up(float(losses[:n].sum()))
    return ThresholdChoice(threshold, n, n_wrong, min(bound, risk))


def last_passing(
    rising: FloatArray, start: int, passes: Callable[[int], bool]
) -> tuple[float, int] | None:
    """Tests one threshold after the other, and returns the last before the first failure with how many it answers.

    `rising` are the uncertainties in ascending order, and `start` is the number of questions at which the tests start.
    """
    last: tuple[float, int] | None = None
    n_answered = 0
    n_questions = rising.size
    step = max(1, round(n_questions / _N_STEPS))
    for count in (*range(start, n_questions, step), n_questions):
        # ties may have been answered with the threshold before
        if count <= n_answered:
            continue
        threshold = float(rising[count - 1])
        n_answered = int(np.searchsorted(rising, threshold + TIE, side="right"))
        if not passes(n_answered):
            break
        last = threshold, n_answered
    return last


def round_up(n_wrong: float) -> int:
    """Returns a sum of shares as a whole number of errors, never below the sum except by rounding errors."""
    return math.ceil(n_wrong - 1e-9)


def keeps_risk(losses: FloatArray, scale: FloatArray, *, risk: float, confidence: float) -> bool:
    """Returns whether the evidence of `weighted_risk_bound` shows the risk; `scale` are c / p, in (0, 1]."""
    return _log_evidence(losses, scale, risk) >= -math.log(1.0 - confidence) - 1e-9


def _log_evidence(losses: FloatArray, scale: FloatArray, risk: float) -> float:
    """The logarithm of e(r) in `weighted_risk_bound`."""
    gains = scale * (risk - losses) / (1.0 - risk)
    log_capital = np.log1p(_BETS[:, None] * gains).sum(axis=1)
    return float(_mean_of_bets(log_capital))


def _mean_of_bets(log_capital: FloatArray) -> FloatArray:
    log_sum = np.logaddexp.reduce(log_capital, axis=0)
    return np.asarray(log_sum - np.log(_BETS.size))
