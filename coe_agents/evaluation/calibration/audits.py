"""Owns the calibration on what people ruled: random audits, weighted by the probability of being seen, by betting."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number, one_of, require
from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.evaluation.calibration.monitor import check_probability
from coe_agents.evaluation.calibration.threshold import NO_THRESHOLD, ThresholdChoice, fixed_sequence, round_up
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.policy import CalibratedPolicy
from coe_agents.uncertainty.answers import TIE

_BETS: FloatArray = np.array([0.2, 0.4, 0.6, 0.8, 0.95])
"""The shares of its capital that a bet for a kept risk loses with one wrong answer of the highest weight."""


SeenAs = Literal["audit", "escalation"]


@dataclass(frozen=True, slots=True)
class Seen:
    """How a ruled case came to be seen.

    Attributes:
        probability: The probability with which such a case is recorded: the audit rate, or 1 for an escalation.
        kind: "audit" of an answer that the group gave, or "escalation".
    """

    probability: float
    kind: SeenAs

    def __post_init__(self) -> None:
        check_probability(self.probability, name="seen_probability")
        one_of(self.kind, '"kind"', get_args(SeenAs), advice="Use what `harvest` wrote")

    @classmethod
    def of(cls, sample: Mapping[str, object]) -> "Seen":
        """Returns how the case of a sample that `harvest` wrote came to be seen.

        Raises:
            TypeError: Its probability is no number.
            ValueError: The sample does not say it.
        """
        return cls(cast("float", sample.get("seen_probability")), cast("SeenAs", sample.get("kind")))


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A policy after a calibration on ruled cases.

    Attributes:
        policy: The policy; its threshold may have moved.
        n_audits: The audited answers with a verdict; only these say something about the risk of answers.
        n_escalations: The escalations with a verdict.
        outcome: "raised", "lowered", "same"; "none": no threshold keeps the risk, and nothing is answered; "unaudited":
            there are no audits, and "few": too few cases for any threshold. In these two the policy is the given one.
        n_below: The escalations at or below the given threshold, which it does not explain: see `recalibrate`.
    """

    policy: CalibratedPolicy
    n_audits: int
    n_escalations: int
    outcome: Literal["raised", "lowered", "same", "none", "unaudited", "few"]
    n_below: int = 0


def weighted_risk_bound(
    losses: npt.ArrayLike, probabilities: npt.ArrayLike, *, confidence: float, least: float | None = None
) -> float:
    r"""Upper confidence bound of a risk from cases that were seen with known, unequal probabilities.

    Against "the risk is at least r" one bets on right answers. With the losses x_i, the probabilities p_i >= c,

        e(r) = 1/5 \sum_b \prod_i (1 + b c / (1 - r) (r - x_i) / p_i),    b in {0.2, 0.4, 0.6, 0.8, 0.95},

    has an expected value of at most 1 if the risk is at least r, since E[seen / p (r - x)] = r - E[x]; so e(r) reaches
    1 / (1 - confidence) with probability at most 1 - confidence (Markov). e rises with r, and the bound is the least r
    at which it reaches that. Weighted losses are no counts, for which a binomial bound would be wrong. For equal
    probabilities the bound is somewhat above that of Clopper and Pearson. It does not depend on the order of the cases.

    Args:
        losses: Shape `(n,)`, in [0, 1]: 1 for a wrong answer.
        probabilities: Shape `(n,)`, in (0, 1].
        confidence: In (0, 1).
        least: The least probability c that a case may have, set before the cases were seen; default: the least of the
            given ones, which is right where these are audit rates, and not computed from a case.

    Returns:
        The bound, in [0, 1]; 1 where the cases show nothing.

    Raises:
        ValueError: An argument is out of its range.

    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).

    >>> round(weighted_risk_bound([0] * 50, [1] * 50, confidence=0.9), 3)  # Clopper-Pearson: 0.045
    0.064
    """
    x, p = np.asarray(losses, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if x.ndim != 1 or x.shape != p.shape or not ((x >= 0) & (x <= 1)).all() or not ((p > 0) & (p <= 1)).all():
        raise ValueError(
            '"losses" must be in [0, 1] and "probabilities" in (0, 1], of one length; got others. '
            "Pass one of each for every case"
        )
    number(confidence, '"confidence"', above=0, below=1, advice="Pass 0.9, for example")
    if not x.size:
        return 1.0
    c = float(p.min()) if least is None else least
    must = '"least" must be above 0 and at most each probability'  # a bet could lose more than it has
    require(0.0 < c <= p.min(), must, least, "Pass the lowest audit rate")
    limit = -math.log(1.0 - confidence)

    def excess(r: float) -> float:
        return _log_evidence(x, c / p, r) - limit

    low, high = 0.0, 1.0 - 1e-9
    if excess(high) < 0.0:
        return 1.0
    from scipy.optimize import brentq  # here, since importing it takes as long as scoring a thousand questions

    return float(brentq(excess, low, high, xtol=1e-9))


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

    Args:
        correct: Shape `(n,)`, in [0, 1].
        uncertainty: Shape `(n,)`; higher = less sure.
        probabilities: Shape `(n,)`, in (0, 1]: with which each case was seen.
        risk: In (0, 1).
        confidence: In (0, 1).

    Returns:
        None where not even right answers alone would pass.
    """
    x = 1.0 - np.asarray(correct, dtype=np.float64)
    scores, p = np.asarray(uncertainty, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    order = np.argsort(scores, kind="stable")
    rising, x, p = scores[order], x[order], p[order]
    least = float(p.min())
    start = first_audited_count(least / p, risk=risk, confidence=confidence)
    if start is None:
        return None
    n_answered = 0
    for tested, n in fixed_sequence(rising, start):
        if _log_evidence(x[:n], least / p[:n], risk) < -np.log(1.0 - confidence) - 1e-9:
            break
        threshold, n_answered = tested, n
    if not n_answered:
        return NO_THRESHOLD
    x, p = x[:n_answered], p[:n_answered]
    bound = weighted_risk_bound(x, p, confidence=confidence, least=least)
    return ThresholdChoice(threshold, n_answered, round_up(float(x.sum())), min(bound, risk))


def first_audited_count(scale: npt.ArrayLike, *, risk: float, confidence: float) -> int | None:
    """The number of cases at which the sequence of tests starts; None where not even right answers alone would pass.

    It is the first k at which the evidence of the k least uncertain cases is expected to pass if they err half as often
    as is allowed, and one error more. If there is no such k, the further error is left out; if there is still none, the
    first k at which right answers alone pass.

    Args:
        scale: Shape `(n,)`: c / p of each case, the least uncertain first, in (0, 1].
        risk: In (0, 1).
        confidence: In (0, 1).

    >>> [first_audited_count(np.ones(n), risk=0.1, confidence=0.9) for n in (20, 100, 1000)]
    [None, 32, 239]
    """
    scaled = _BETS[:, None] * np.asarray(scale, dtype=np.float64)
    right, wrong = np.log1p(scaled * risk / (1.0 - risk)).cumsum(axis=1), np.log1p(-scaled).cumsum(axis=1)
    expected = (1.0 - risk / 2.0) * right + risk / 2.0 * wrong
    for gained in (expected + np.log1p(-_BETS)[:, None], expected, right):
        passes = _mean_of_bets(gained) >= -np.log(1.0 - confidence)
        if passes.any():
            return int(passes.argmax()) + 1
    return None


def recalibrate(
    policy: CalibratedPolicy,
    rows: Sequence[Judged],
    seen: Mapping[str, Seen],
    *,
    risk: float,
    confidence: float,
) -> Recalibration:
    """Chooses the threshold of a policy in use from cases on which people ruled: see `coe_agents.rulings`.

    Escalated cases are those of which the policy was unsure: they say nothing about the risk of what it answered. That
    is estimated from random audits, with weights 1 / probability of being seen. Above the present threshold,
    where nothing was answered, the escalations on which people ruled stand for the cases that a higher threshold would
    answer. So without audits the threshold stays, and is never raised. What measures the uncertainty, CoE or a learned
    gate, stays as it is.

    The present threshold does not explain an escalation at or below it. If a former, lower one escalated it, it stands
    for an answer, and without it the risk there would be estimated too low. If another part did, such as a guard before
    the policy, it is never answered, and with it the estimate would be wrong. So the threshold is chosen both with and
    without such escalations, and the lower one is taken: the guarantee holds if all of them are of one of these kinds.

    The guarantee is that of `choose_audited_threshold`, for traffic like that of these cases, if the answers to be
    audited were drawn at random, all of them were ruled on, and escalations were settled whatever the answer is. Leave
    out cases from before a change of the traffic: their number helps no estimate of the present.

    Args:
        policy: The policy that is in use.
        rows: From `judge_samples`, with the policy's weights, and with `every_cluster` for a learned gate; those
            without a verdict are left out.
        seen: How each case came to be seen, by the id of its row.
        risk: The highest share of wrong answers among those given, in (0, 1).
        confidence: The probability with which it is kept, in (0, 1).

    Raises:
        ValueError: A row is not in `seen`, or was measured with another divergence, or the policy judges a proposer.
    """
    if lacking := [row.id for row in rows if row.id not in seen]:
        raise ValueError(
            f'"seen" must hold every case; {len(lacking)} are missing, such as {lacking[0]!r:.80}. Pass only samples '
            "that `coe-agents harvest` wrote"
        )
    calibration = policy.calibration
    must = '"policy" must judge the group\'s answer, not the proposals of an agent'
    advice = "Rulings say whether an answer was right, not a proposal: calibrate it on labelled proposals"
    require(calibration.proposer is None, must, calibration.proposer, advice)
    if other := {row.measurement.divergence for row in rows} - {calibration.divergence}:
        raise ValueError(
            f'"rows" must be measured with the divergence "{calibration.divergence}" of the policy; got '
            f"{', '.join(sorted(other))}. Measure them again"
        )
    needed = set() if calibration.gate is None else set(calibration.gate.agents)
    usable = [row for row in rows if needed <= row.measurement.agents.keys()]
    judged = [
        (row, verdict)
        for row in usable
        if calibration.can_answer(row.measurement) and (verdict := row.verdict(calibration)) is not None
    ]
    n_audits = sum(seen[row.id].kind == "audit" for row, _ in judged)
    counts = (n_audits, len(judged) - n_audits)
    if not n_audits:
        return Recalibration(policy, *counts, "unaudited")
    scores = np.array([calibration.uncertainty(row.measurement) for row, _ in judged])
    below = -1.0 if calibration.threshold is None else calibration.threshold + TIE
    is_unexplained = (scores <= below) & [seen[row.id].kind == "escalation" for row, _ in judged]
    n_below = int(is_unexplained.sum())
    probabilities, correct = np.array([(seen[row.id].probability, verdict) for row, verdict in judged]).T
    everything = np.full(scores.size, True)
    choices = [
        choose_audited_threshold(
            correct=correct[used],
            uncertainty=scores[used],
            probabilities=probabilities[used],
            risk=risk,
            confidence=confidence,
        )
        for used in ([everything, ~is_unexplained] if n_below else [everything])
    ]
    if None in choices:
        return Recalibration(policy, *counts, "few", n_below)
    choice = min(filter(None, choices), key=lambda each: -math.inf if each.threshold is None else each.threshold)
    record = replace(
        calibration,
        **choice._asdict(),
        risk=risk,
        confidence=confidence,
        n_questions=len(judged),
        n_ties=0,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        uncertainties=_as_in_traffic(scores, probabilities),
    )
    return Recalibration(
        CalibratedPolicy(record, otherwise=policy.otherwise),
        *counts,
        _outcome(calibration.threshold, choice.threshold),
        n_below,
    )


def _outcome(before: float | None, after: float | None) -> Literal["raised", "lowered", "same", "none"]:
    if after is None:
        return "none"
    if before is None or after > before + TIE:
        return "raised"
    return "lowered" if after < before - TIE else "same"


def _as_in_traffic(scores: FloatArray, probabilities: FloatArray) -> tuple[float, ...]:
    """Returns as many quantiles of the weighted scores as their weights are worth, in ascending order, and the highest.

    The traffic has these quantiles, as far as the cases show; drift is measured against them.
    """
    order = np.argsort(scores, kind="stable")
    weights = 1.0 / probabilities[order]
    n = max(1, round(weights.sum() * probabilities.min()))
    places = np.searchsorted(np.cumsum(weights), (np.arange(n) + 0.5) / n * weights.sum())
    rising = scores[order]
    return (*rising[np.minimum(places, rising.size - 1)].tolist(), float(rising[-1]))


def _log_evidence(losses: FloatArray, scale: FloatArray, risk: float) -> float:
    """The logarithm of e(r); `scale` are c / p, in (0, 1]."""
    gains = scale * (risk - losses) / (1.0 - risk)
    return float(_mean_of_bets(np.log1p(_BETS[:, None] * gains).sum(axis=1)))


def _mean_of_bets(log_capital: FloatArray) -> FloatArray:
    """The logarithm of the mean capital over the bets, which are the first axis."""
    return np.asarray(np.logaddexp.reduce(log_capital, axis=0) - np.log(_BETS.size))
