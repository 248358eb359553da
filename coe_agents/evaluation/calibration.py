"""Owns the choice of a threshold that keeps a stated risk with a stated confidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from coe_agents.clustering import Clusterer
from coe_agents.evaluation.learned import fit_gate
from coe_agents.evaluation.metrics.tallies import FloatArray, checked
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, with_verdicts
from coe_agents.evaluation.scoring.scores import in_second_half
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.policy import CalibratedPolicy, Measurement, Weighting
from coe_agents.policy.calibrated import AgentWeighting, CalibratedAgent, Calibration

COE_STEP, GATE_STEP = 0.05, 0.005
"""The distance of the thresholds that are tried: in nats, and as an estimated probability of error."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One question as a policy sees it, and whether the group was right.

    Attributes:
        id: The question's id.
        measurement: What a policy would be shown.
        correct: Whether the answer was right, in [0, 1]; None where that cannot be said.
    """

    id: str
    measurement: Measurement
    correct: float | None


class Choice(NamedTuple):
    """The threshold with the most coverage that keeps the risk.

    Attributes:
        threshold: None if none keeps it.
        n_answered: How many questions it answers.
        n_wrong: How many of these wrongly.
        bound: The upper confidence bound of its risk; None without a threshold.
    """

    threshold: float | None
    n_answered: int
    n_wrong: int
    bound: float | None


def judged(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
) -> list[Judged]:
    """Measures and judges every question that has a response, in the order of the questions."""
    statistics = iter_statistics(questions, clusterer=clusterer, weighting=weighting)
    return [Judged(s.question.id, s.measurement, verdict) for s, verdict in with_verdicts(statistics, criterion)]


def risk_bound(n_wrong: int, n_answered: int, *, confidence: float) -> float:
    """Clopper-Pearson upper bound of a risk: it lies below the true risk with probability at most 1 - confidence.

    The `confidence` quantile of Beta(n_wrong + 1, n_answered - n_wrong); 1.0 where nothing, or nothing right, was
    answered.

    >>> round(risk_bound(0, 22, confidence=0.9), 4)  # 1 - 0.1 ** (1 / 22)
    0.0994
    """
    if n_wrong >= n_answered:
        return 1.0
    return float(beta.ppf(confidence, n_wrong + 1, n_answered - n_wrong))


def choose_threshold(
    *,
    correct: npt.ArrayLike,
    uncertainty: npt.ArrayLike,
    grid: npt.ArrayLike,
    risk: float,
    confidence: float,
    first_coverage: float = 0.1,
) -> Choice:
    """Chooses the highest threshold whose risk is shown to be at most `risk`, testing so that the choice is paid for.

    Fixed-sequence testing (Angelopoulos et al., "Learn then test", 2021): the thresholds of `grid`, fixed before the
    data are seen, are tested in rising order, each at level 1 - confidence by `risk_bound`, and the last one before the
    first failure is chosen. Since the first threshold whose true risk is too high must be passed to go wrong, the
    chosen risk exceeds `risk` with probability at most 1 - confidence, however many thresholds there are. Thresholds
    that answer less than `first_coverage` of the questions are passed over untested, as they fail for want of data;
    skipping by how many (not which) are answered keeps the guarantee where the risk rises with the threshold, which is
    what a useful uncertainty does.

    Args:
        correct: Shape `(n,)`: of the questions that can be answered at all.
        uncertainty: Shape `(n,)`; higher = less sure. A question is answered where it is at most the threshold.
        grid: Shape `(n_thresholds,)`; sorted here.
        risk: In (0, 1).
        confidence: In (0, 1).
        first_coverage: In [0, 1].

    Raises:
        ValueError: The arguments differ in length, are empty, or hold something else.

    >>> few, many = ([True] * n for n in (15, 50))
    >>> choose_threshold(correct=few, uncertainty=[0.1] * 15, grid=[0.0, 0.5], risk=0.1, confidence=0.9).threshold
    >>> choose_threshold(correct=many, uncertainty=[0.1] * 50, grid=[0.0, 0.5], risk=0.1, confidence=0.9).threshold
    0.5
    """
    right, scores = checked(correct, uncertainty, name="uncertainty")
    chosen = Choice(None, 0, 0, None)
    for threshold in np.sort(np.asarray(grid, dtype=np.float64)).tolist():
        answered = scores <= threshold + 1e-9
        n_answered, n_wrong = int(answered.sum()), int((answered & ~right).sum())
        if n_answered < max(1, first_coverage * right.size):
            continue
        bound = risk_bound(n_wrong, n_answered, confidence=confidence)
        if bound > risk:
            break
        chosen = Choice(threshold, n_answered, n_wrong, bound)
    return chosen


def calibrate(
    rows: Sequence[Judged],
    *,
    risk: float,
    confidence: float,
    gate: Literal["threshold", "learned"] = "threshold",
    clusterer: str,
    correctness: str,
) -> CalibratedPolicy:
    """Calibrates a policy on judged questions.

    A group that declines or says nothing abstains whatever its uncertainty, so such questions count as not answered.
    The learned gate is fitted on one half of the questions (by a hash of their ids) and its threshold chosen on the
    other, so that the promise holds for it as well; `n_questions` counts the other half.

    Args:
        rows: From `judged`; those without a verdict are left out.
        risk: The highest share of wrong answers among those given, in (0, 1).
        confidence: The probability with which it is kept, in (0, 1).
        gate: "threshold": on CoE; "learned": on the probability of a wrong answer that a logistic regression gives.
        clusterer: What the clusterer is called, for the record.
        correctness: What the criterion is called, for the record.

    Raises:
        ValueError: No question has a verdict, or the gate cannot be learned.
    """
    known = [row for row in rows if row.correct is not None]
    if not known:
        raise ValueError('"rows" must hold questions with a verdict; none has one. Add references or labels')
    linear = None
    if gate == "learned":
        fitted = [row for row in known if not in_second_half(row.id)]
        linear = fit_gate([row.measurement for row in fitted], [bool(row.correct) for row in fitted])
        agents = set(linear.agents)
        known = [row for row in known if in_second_half(row.id) and agents <= row.measurement.agents.keys()]
        if not known:
            raise ValueError('"rows" must leave questions for the threshold; none is left. Add questions')
    open_record = Calibration(
        risk=risk,
        confidence=confidence,
        threshold=None,
        n_questions=len(known),
        n_answered=0,
        n_wrong=0,
        bound=None,
        agents=_agents(row.measurement for row in known),
        clusterer=clusterer,
        correctness=correctness,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        uncertainties=(),
        gate=linear,
    )
    scores = np.array([open_record.uncertainty(row.measurement) for row in known])
    willing = np.array([row.measurement.answer_kind == "answer" for row in known])
    right = np.array([bool(row.correct) for row in known])
    choice = Choice(None, 0, 0, None)
    if willing.any():
        grid = threshold_grid(known if linear is None else None)
        share = {"first_coverage": 0.1 * len(known) / willing.sum()}
        choice = choose_threshold(
            correct=right[willing], uncertainty=scores[willing], grid=grid, risk=risk, confidence=confidence, **share
        )
    uncertainties = tuple(np.sort(scores).tolist())
    return CalibratedPolicy(replace(open_record, **choice._asdict(), uncertainties=uncertainties))


def threshold_grid(rows: Sequence[Judged] | None) -> FloatArray:
    """The thresholds to try, which hang on no verdict and no uncertainty: up to the highest possible one.

    CoE is at most log(number of responses) nats under uniform weights; None: probabilities, for a learned gate.
    """
    if rows is None:
        return np.arange(0, 1 + GATE_STEP / 2, GATE_STEP)
    most = max(sum(agent.n_responses for agent in row.measurement.agents.values()) for row in rows)
    return np.arange(0, np.log(most) + COE_STEP, COE_STEP)


def _agents(measurements: Iterable[Measurement]) -> dict[str, CalibratedAgent]:
    seen: dict[str, list[tuple[int, AgentWeighting]]] = {}
    for measurement in measurements:
        for name, agent in measurement.agents.items():
            seen.setdefault(name, []).append((agent.n_responses, agent.weighting))
    found = {}
    for name, entries in sorted(seen.items()):
        counts, weightings = {count for count, _ in entries}, {weighting for _, weighting in entries}
        kind: AgentWeighting = "mixed" if len(weightings) > 1 else weightings.pop()
        found[name] = CalibratedAgent(min(counts), max(counts), kind)
    return found
