"""Owns the calibration of a cascade: the thresholds of all stages together, for a stated risk at least cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.experiments.comparison import Prices, price_of
from coe_agents.experiments.replay import ReplayedPolicy, Saved
from coe_agents.policy import CascadePolicy, ThresholdPolicy


@dataclass(frozen=True, slots=True)
class Stages:
    """What each stage of a cascade would say, on saved responses; all arrays have shape `(n_questions, n_stages)`.

    Attributes:
        stages: The names of the agents of each stage.
        uncertainty: Comparable CoE of all responses up to the stage; infinite where it cannot be answered.
        correct: Whether the leading answer is right, in [0, 1].
        price: What all requests up to the stage cost.
    """

    stages: tuple[tuple[str, ...], ...]
    uncertainty: FloatArray
    correct: FloatArray
    price: FloatArray

    def take(self, rows: Sequence[int]) -> "Stages":
        """Returns some of the questions."""
        chosen = list(rows)
        return Stages(self.stages, self.uncertainty[chosen], self.correct[chosen], self.price[chosen])


@dataclass(frozen=True, slots=True)
class CascadeFigures:
    """What thresholds do: share answered, share of these that is wrong (NaN without any), mean price of a question."""

    coverage: float
    risk: float
    price: float


@dataclass(frozen=True, slots=True)
class CalibratedCascade:
    """The thresholds of a cascade, with their figures on the calibration questions; None: no answer at that stage."""

    stages: tuple[tuple[str, ...], ...]
    thresholds: tuple[float | None, ...]
    figures: CascadeFigures

    def to_policy(self) -> CascadePolicy:
        """Returns the policy; a stage that never answers joins the next one.

        Raises:
            ValueError: If no stage answers.
        """
        stages, thresholds, waiting = list[list[str]](), list[float](), list[str]()
        for stage, threshold in zip(self.stages, self.thresholds, strict=True):
            waiting += stage
            if threshold is not None:
                stages.append(waiting)
                thresholds.append(threshold)
                waiting = []
        if not stages:
            raise ValueError('"thresholds" must hold one at which a stage answers; got none. Allow a higher risk')
        if waiting:  # they are never asked; a graph needs each agent in a stage
            stages[-1] += waiting
        return CascadePolicy(stages, thresholds)


def measure_stages(
    saved: Sequence[Saved], stages: Sequence[Sequence[str]], criterion: Criterion, *, prices: Prices | None = None
) -> Stages:
    """Returns what each stage would say about each question, with all saved responses of its agents.

    A stage counts all responses up to it. The price is the cost by `prices`, or else tokens. Questions that no
    criterion can judge, or that lack an agent, are left out.

    Raises:
        ValueError: If no question is left.
    """
    names = [name for stage in stages for name in stage]
    rows = []
    for each in saved:
        if not all(each.available[name] for name in names):
            continue
        found = [
            _stage_of(each, names[: sum(map(len, stages[: number + 1]))], criterion, prices)
            for number in range(len(stages))
        ]
        if all(correct is not None for _, correct, _ in found):
            rows.append(found)
    if not rows:
        raise ValueError(
            f'"saved" must hold questions with responses of {", ".join(names)}; got none. Name other agents'
        )
    table = np.array(rows, dtype=float)
    return Stages(tuple(tuple(stage) for stage in stages), table[..., 0], table[..., 1], table[..., 2])


def _stage_of(
    saved: Saved, names: Sequence[str], criterion: Criterion, prices: Prices | None
) -> tuple[float, float | None, float]:
    counts = tuple(sorted((name, saved.available[name]) for name in names))
    policy = ReplayedPolicy(name="stage", policy=ThresholdPolicy(0.0), n_samples=dict(counts))
    measurement = saved.measure(counts, policy)
    can_answer = measurement.answer_kind == "answer" and not measurement.tied
    rows, _ = saved.take(counts)
    usage = []
    for row in rows:
        prompt = row.get("input_tokens")  # of the request, which asked for all of the agent's responses
        given = prompt / saved.available[row["agent"]] if isinstance(prompt, int) else 0.0
        usage.append((row["agent"], given, float(row["n_tokens"] or 0)))
    cost = price_of(usage, prices) if prices else sum(given + said for _, given, said in usage)
    return (
        measurement.comparable_coe if can_answer else np.inf,
        saved.verdict(measurement.answer, criterion),
        np.nan if cost is None else cost,
    )


def figures_of(stages: Stages, thresholds: Sequence[float | None]) -> CascadeFigures:
    """Returns what thresholds do; None never answers at that stage.

    A question is answered at the first stage s with u_s <= t_s, and pays for the stages up to it; for all, if none
    answers. After the last stage that can answer none is asked.
    """
    n, n_stages = stages.uncertainty.shape
    limits = np.array([-np.inf if value is None else value for value in thresholds])
    passes = stages.uncertainty <= limits
    last = max((place for place, value in enumerate(thresholds) if value is not None), default=0)
    answered = passes.any(axis=1)
    at = np.where(answered, passes.argmax(axis=1), min(last, n_stages - 1))
    rows = np.arange(n)
    right = stages.correct[rows, at][answered]
    risk = float(1.0 - right.mean()) if right.size else float("nan")
    return CascadeFigures(float(answered.mean()), risk, float(stages.price[rows, at].mean()))


def calibrate_cascade(
    stages: Stages, *, risk: float, coverage: float | None = None, n_thresholds: int = 25
) -> CalibratedCascade | None:
    """Returns the thresholds that keep a risk and answer enough at least cost; None if none does.

    All combinations of `n_thresholds` quantiles a stage, and of never answering there, are tried. Of those with a risk
    of at most `risk` among the answered calibration questions and a coverage of at least `coverage`, the cheapest is
    chosen; of equally cheap ones that which answers most. The risk is that of the calibration questions: it carries no
    guarantee for others, and being the best of many it is optimistic. Judge it on questions that did not choose it.

    Args:
        stages: The calibration questions.
        risk: The highest share of wrong answers among those given, in [0, 1].
        coverage: The least share to answer; by default what the last stage alone, which asks everyone, answers at most
            within the risk.
        n_thresholds: Quantiles tried a stage; at least 2.

    Raises:
        ValueError: If an argument is out of range.
    """
    if not 0 <= risk <= 1 or n_thresholds < 2 or (coverage is not None and not 0 <= coverage <= 1):
        raise ValueError(
            f'"risk" and "coverage" must be in [0, 1] and "n_thresholds" at least 2; got {risk}, {coverage} and '
            f"{n_thresholds}. A risk of 0.1 is usual"
        )
    n_stages = len(stages.stages)
    choices = [_choices(stages.uncertainty[:, place], n_thresholds) for place in range(n_stages)]
    if coverage is None:
        alone = [figures_of(stages, [*[None] * (n_stages - 1), value]) for value in choices[-1]]
        coverage = max((each.coverage for each in alone if each.risk <= risk), default=0.0)
    best: CalibratedCascade | None = None
    for thresholds in product(*choices):
        if all(value is None for value in thresholds):
            continue
        found = figures_of(stages, thresholds)
        if found.risk <= risk and found.coverage >= coverage - 1e-12:
            own = CalibratedCascade(stages.stages, thresholds, found)
            if best is None or (found.price, -found.coverage) < (best.figures.price, -best.figures.coverage):
                best = own
    return best


def _choices(uncertainty: FloatArray, n: int) -> list[float | None]:
    finite = uncertainty[np.isfinite(uncertainty)]
    if not finite.size:
        return [None]
    found = np.unique(np.round(np.quantile(finite, np.linspace(0, 1, n)), 9) + 1e-9)
    return [None, *found.tolist()]
