"""Owns the choice of a threshold: fixed-sequence testing with a binomial bound."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.evaluation.metrics.tallies import FloatArray, check_shares
from coe_agents.uncertainty.ties import TIE

_N_STEPS = 50
"""How many thresholds are tested at most, at equal steps of the number of questions that they answer."""
LIKELY = 0.9
"""The probability with which an uncertainty that errs half as often as is allowed passes the first test."""


class ThresholdChoice(NamedTuple):
    """The threshold with the most coverage that keeps the risk.

    Attributes:
        threshold: None if none keeps it.
        n_answered: How many questions it answers.
        n_wrong: How many of these wrongly, shares added up and rounded up.
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
    from scipy.stats import beta  # here, since importing it takes as long as scoring a thousand questions

    if n_wrong >= n_answered:
        return 1.0
    return float(beta.ppf(confidence, n_wrong + 1, n_answered - n_wrong))


@lru_cache(maxsize=1024)
def first_count(n: int, *, risk: float, confidence: float) -> int | None:
    """The number of answered questions at which the fixed sequence of tests starts, among `n`.

    It is the larger of two counts k: the first at which floor(k risk / 2) errors pass `risk_bound`, or, where `n` is
    too small for that, the first that passes with none; and the first at which an uncertainty that errs half as often
    as is allowed passes with probability 0.9, at most n / 4. The former alone starts at 12 questions at risk 0.3, where
    two errors end the search: over halves of eight sets of real answers the mean coverage was 0.12, and 0.28 with both.

    Returns:
        None where not even `n` right answers pass: (1 - risk)^n > 1 - confidence.

    >>> first_count(100, risk=0.1, confidence=0.9), first_count(10, risk=0.1, confidence=0.9)
    (38, None)
    """
    counts = np.arange(1, n + 1)
    # the most errors that pass; -1: none do. The tolerance keeps (1 - risk)^n == 1 - confidence on this side of it.
    level = (1.0 - confidence) * (1.0 + 1e-9)
    from scipy.stats import binom

    most = binom.ppf(level, counts, risk)
    most = np.where(binom.cdf(most, counts, risk) <= level, most, most - 1.0)
    passes = np.floor(counts * risk / 2.0 + 1e-9) <= most
    if not passes.any():
        passes = most >= 0.0
    if not passes.any():
        return None
    likely = binom.cdf(most, counts, risk / 2.0) >= LIKELY
    ahead = int(counts[likely.argmax()]) if likely.any() else n
    return max(int(counts[passes.argmax()]), min(ahead, n // 4))


def choose_threshold(
    *, correct: npt.ArrayLike, uncertainty: npt.ArrayLike, risk: float, confidence: float
) -> ThresholdChoice:
    """Chooses the highest threshold whose risk is shown to be at most `risk`, by tests that allow for the choice.

    Fixed-sequence testing (Angelopoulos et al., "Learn then test", 2021) over numbers of answered questions: the k
    least uncertain questions are tested at level 1 - confidence by `risk_bound`, for k from `first_count` in steps of
    n / 50 to n, and the last k before the first failure is chosen. Which k are tested depends on n alone. Where the
    risk rises with the uncertainty, which is what a useful uncertainty does, let u be where the risk of answering up to
    it passes `risk`. To go wrong, the first tested k whose threshold lies beyond u must pass; its errors are at least
    those of k draws at `risk`, whatever the other k are, so that this happens with probability at most 1 - confidence.

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
    right, scores = check_shares(correct, uncertainty, name="uncertainty")
    start = first_count(right.size, risk=risk, confidence=confidence)
    chosen = NO_THRESHOLD
    if start is None:
        return chosen
    order = np.argsort(scores, kind="stable")
    rising, wrong = scores[order], np.cumsum(1.0 - right[order])
    for threshold, n_answered in fixed_sequence(rising, start):
        n_wrong = round_up(float(wrong[n_answered - 1]))
        bound = risk_bound(n_wrong, n_answered, confidence=confidence)
        if bound > risk * (1.0 + 1e-9):
            break
        chosen = ThresholdChoice(threshold, n_answered, n_wrong, bound)
    return chosen


def fixed_sequence(rising: FloatArray, start: int) -> Iterator[tuple[float, int]]:
    """Yields the thresholds to test one after the other, and how many questions each answers.

    Args:
        rising: The uncertainties of the questions, in ascending order.
        start: The number of questions at which the tests start.
    """
    n_answered = 0
    for count in (*range(start, rising.size, max(1, round(rising.size / _N_STEPS))), rising.size):
        if count > n_answered:
            threshold = float(rising[count - 1])
            n_answered = int(np.searchsorted(rising, threshold + TIE, side="right"))
            yield threshold, n_answered


def round_up(n_wrong: float) -> int:
    """Returns a sum of shares as a whole number of errors, never below the sum except by rounding errors."""
    return math.ceil(n_wrong - 1e-9)
