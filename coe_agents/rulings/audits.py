"""Owns the calibration on what people ruled: random audits, weighted by the probability of being seen, by betting."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, cast, get_args

import numpy as np

from coe_agents.checks import one_of, require
from coe_agents.evaluation.calibration import risk_control
from coe_agents.evaluation.calibration.calibrate import Judged, answerable_rows
from coe_agents.evaluation.calibration.drift import check_probability
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.policy import CalibratedPolicy
from coe_agents.uncertainty.ties import TIE

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
        """Returns how the case of a sample that `harvest` wrote came to be seen; a ValueError if it does not say."""
        probability = cast("float", sample.get("seen_probability"))
        return cls(probability, cast("SeenAs", sample.get("kind")))


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


def recalibrate(
    policy: CalibratedPolicy,
    rows: Sequence[Judged],
    seen: Mapping[str, Seen],
    *,
    risk: float,
    confidence: float,
) -> Recalibration:
    """Chooses the threshold of a policy in use from cases on which people ruled: see `coe_agents.rulings.recorded`.

    Escalated cases are those of which the policy was unsure: they say nothing about the risk of what it answered. That
    is estimated from random audits, with weights 1 / probability of being seen. Above the present threshold,
    where nothing was answered, the escalations on which people ruled stand for the cases that a higher threshold would
    answer. So without audits the threshold stays, and is never raised. What measures the uncertainty stays as it
    is.

    The present threshold does not explain an escalation at or below it. If a former, lower one escalated it, it stands
    for an answer, and without it the risk there would be estimated too low. If another part did, such as a guard before
    the policy, it is never answered, and with it the estimate would be wrong. So the threshold is chosen both with and
    without such escalations, and the lower one is taken: the guarantee holds if all of them are of one of these kinds.

    Audits of one common rate are also counted without weights. Those up to the present threshold are a simple random
    sample of the traffic that it answers, since each answer was drawn with the same probability, whatever its
    uncertainty. So a binomial bound holds for them, and `choose_threshold` on them alone may choose any threshold up to
    the present one. It finds one more often, since this bound is lower than one by betting. Each of the two ways may
    fail with (1 - confidence) / 2, so that both together keep the confidence, and the larger threshold is taken. If the
    rates of the audits differ, or there are too few for a binomial test, there is only the first way, at the whole
    confidence.

    The guarantee is that of `choose_audited_threshold`, for traffic like that of these cases, if the answers to be
    audited were drawn at random, all of them were ruled on, and escalations were settled whatever the answer is. Leave
    out cases from before a change of the traffic: their number helps no estimate of the present.

    Args:
        policy: The policy that is in use.
        rows: From `judge_samples`, with the policy's weights, and with `every_cluster` where the
            score chooses the answer; those without a verdict are left out.
        seen: How each case came to be seen, by the id of its row.
        risk: The highest share of wrong answers among those given, in (0, 1).
        confidence: The probability with which it is kept, in (0, 1).

    Raises:
        ValueError: A row is not in `seen`, or the policy judges a proposer.
    """
    _check_seen(rows, seen)
    calibration = policy.calibration
    must = '"policy" must judge the group\'s answer, not the proposals of an agent'
    advice = "Rulings say whether an answer was right, not a proposal: calibrate it on labelled proposals"
    require(calibration.proposer is None, must, calibration.proposer, advice)

    judged = answerable_rows(calibration, rows)
    scores = np.array([calibration.uncertainty(row.measurement) for row, _ in judged])
    correct = np.array([verdict for _, verdict in judged], dtype=np.float64)
    seen_as = [seen[row.id] for row, _ in judged]
    probabilities = np.array([each.probability for each in seen_as], dtype=np.float64)
    is_audit = np.array([each.kind == "audit" for each in seen_as], dtype=np.bool_)
    n_audits = int(is_audit.sum())
    n_escalations = len(judged) - n_audits
    if not n_audits:
        return Recalibration(policy, n_audits, n_escalations, "unaudited")

    below = -math.inf if calibration.threshold is None else calibration.threshold + TIE
    is_explained = (scores > below) | is_audit
    n_below = int((~is_explained).sum())
    everything = np.full(scores.size, True)
    uses = [everything]
    if n_below:
        uses.append(is_explained)

    choices: list[risk_control.ThresholdChoice] = []
    for used in uses:
        choice = choose_in_both_ways(
            correct[used],
            scores[used],
            probabilities[used],
            below=below,
            risk=risk,
            confidence=confidence,
        )
        if choice is None:
            return Recalibration(policy, n_audits, n_escalations, "few", n_below)
        choices.append(choice)
    choice = min(choices, key=_threshold_or_lowest)

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
    moved = CalibratedPolicy(record, otherwise=policy.otherwise)
    outcome = _outcome(calibration.threshold, choice.threshold)
    return Recalibration(moved, n_audits, n_escalations, outcome, n_below)


def _check_seen(rows: Sequence[Judged], seen: Mapping[str, Seen]) -> None:
    lacking = [row.id for row in rows if row.id not in seen]
    if lacking:
        raise ValueError(
            f'"seen" must hold every case; {len(lacking)} are missing, such as {lacking[0]!r:.80}. Pass only samples '
            "that `coe-agents harvest` wrote"
        )


def choose_in_both_ways(
    correct: FloatArray,
    scores: FloatArray,
    probabilities: FloatArray,
    *,
    below: float,
    risk: float,
    confidence: float,
) -> risk_control.ThresholdChoice | None:
    """Returns the larger of two thresholds: by the weights of all cases, and by the number of those up to `below`.

    The latter is chosen if these have one common probability and are enough for a test: no verdict decides on that.
    """
    is_sample = scores <= below
    have_one_rate = np.unique(probabilities[is_sample]).size == 1
    # each of two ways may fail with half of 1 - confidence
    of_each_way = (1.0 + confidence) / 2.0
    n_sample = int(is_sample.sum())
    start = risk_control.first_count(n_sample, risk=risk, confidence=of_each_way)
    can_count = have_one_rate and start is not None

    weighted = risk_control.choose_audited_threshold(
        correct=correct,
        uncertainty=scores,
        probabilities=probabilities,
        risk=risk,
        confidence=of_each_way if can_count else confidence,
    )
    if not can_count:
        return weighted
    counted = risk_control.choose_threshold(
        correct=correct[is_sample], uncertainty=scores[is_sample], risk=risk, confidence=of_each_way
    )
    if weighted is None:
        return None if counted.threshold is None else counted
    return max(weighted, counted, key=_threshold_or_lowest)


def _threshold_or_lowest(choice: risk_control.ThresholdChoice) -> float:
    return -math.inf if choice.threshold is None else choice.threshold


def _outcome(
    before: float | None, after: float | None
) -> Literal["raised", "lowered", "same", "none"]:
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
    rising = scores[order]
    weights = 1.0 / probabilities[order]
    total = weights.sum()
    n = max(1, round(total * probabilities.min()))
    shares = (np.arange(n) + 0.5) / n

    places = np.searchsorted(np.cumsum(weights), shares * total)
    # rounding may lead beyond the last one
    places = np.minimum(places, rising.size - 1)
    quantiles = rising[places].tolist()
    highest = float(rising[-1])
    return (*quantiles, highest)
