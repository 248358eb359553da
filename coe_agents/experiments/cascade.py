"""Owns the calibration of a cascade: the thresholds of all stages together, for a stated risk at least cost."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.experiments.comparison import Prices, price_of
from coe_agents.experiments.replay import ReplayedPolicy, Saved
from coe_agents.policy import CascadePolicy, ThresholdPolicy
from coe_agents.types import Action


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

    def to_policy(self, *, otherwise: Action = "abstain") -> CascadePolicy:
        """Returns the policy; a stage that never answers joins the next one.

        Agents after the last stage that answers are never asked: they are in no stage, and belong in no graph.

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
        return CascadePolicy(stages, thresholds, otherwise=otherwise)


def measure_stages(
    saved: Sequence[Saved],
    stages: Sequence[Sequence[str]],
    criterion: Criterion,
    *,
    prices: Prices | None = None,
    of: ReplayedPolicy | None = None,
) -> Stages:
    """Returns what each stage would say about each question.

    A stage counts all responses up to it. The price is the cost by `prices`, or else tokens. Questions that no
    criterion can judge, or that lack an agent, are left out. `of` is the policy whose number of responses, weights,
    weighting and divergence hold; without it, all saved responses count, each agent as much as another.

    Raises:
        ValueError: If no question is left.
    """
    names = [name for stage in stages for name in stage]
    rows = []
    for each in saved:
        if not all(each.available[name] for name in names):
            continue
        found = [
            _stage_of(each, names[: sum(map(len, stages[: number + 1]))], criterion, prices, of)
            for number in range(len(stages))
        ]
        if all(correct is not None for _, correct, _ in found):
            rows.append(found)
    if not rows:
        raise ValueError(
            '"saved" must hold questions whose answers can be judged right or wrong, with responses of '
            f"{', '.join(names)}; got none. Name other agents, or add references or labels"
        )
    table = np.array(rows, dtype=float)
    return Stages(tuple(tuple(stage) for stage in stages), table[..., 0], table[..., 1], table[..., 2])


def _stage_of(
    saved: Saved, names: Sequence[str], criterion: Criterion, prices: Prices | None, of: ReplayedPolicy | None
) -> tuple[float, float | None, float]:
    asked = saved.available if of is None else of.n_samples
    counts = tuple(sorted((name, min(asked[name], saved.available[name])) for name in names))
    policy = of or ReplayedPolicy(name="stage", policy=ThresholdPolicy(0.0), n_samples=dict(counts))
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
    if coverage is None:
        before = [None] * (len(stages.stages) - 1)
        alone = [figures_of(stages, [*before, value]) for value in _choices(stages.uncertainty[:, -1], n_thresholds)]
        coverage = max((each.coverage for each in alone if each.risk <= risk), default=0.0)
    return _cheapest(_within(stages, n_thresholds, risk), coverage)


def cheapest_cascades(stages: Stages, *, risks: Sequence[float], n: int = 10) -> list[CalibratedCascade]:
    """Returns the cheapest thresholds that keep each risk, for `n` coverages up to the highest possible; each once.

    As in `calibrate_cascade`, which combinations are tried depends on the calibration questions alone: of each stage
    25 quantiles, fewer from four stages on, so that they stay below 20,000.
    """
    n_thresholds = max(2, min(25, int(20_000 ** (1 / len(stages.stages))) - 1))
    answering = list(_within(stages, n_thresholds, 1.0))
    found: list[CalibratedCascade | None] = []
    for risk in risks:
        within = [each for each in answering if each.figures.risk <= risk]
        most = max((each.figures.coverage for each in within), default=0.0)
        found += [_cheapest(within, coverage) for coverage in np.linspace(0, most, n).tolist()]
    return list(dict.fromkeys(each for each in found if each is not None))


def _within(stages: Stages, n_thresholds: int, risk: float) -> Iterator[CalibratedCascade]:
    """Yields the combinations of thresholds that answer something, and keep the risk."""
    for thresholds in product(*(_choices(values, n_thresholds) for values in stages.uncertainty.T)):
        figures = figures_of(stages, thresholds)
        if figures.risk <= risk:
            yield CalibratedCascade(stages.stages, thresholds, figures)


def _cheapest(cascades: Iterable[CalibratedCascade], coverage: float) -> CalibratedCascade | None:
    """Returns the cheapest that answers so much; of equally cheap ones that which answers most."""
    enough = (each for each in cascades if each.figures.coverage >= coverage - 1e-12)
    return min(enough, key=lambda each: (each.figures.price, -each.figures.coverage), default=None)


def _choices(uncertainty: FloatArray, n: int) -> list[float | None]:
    finite = uncertainty[np.isfinite(uncertainty)]
    if not finite.size:
        return [None]
    found = np.unique(np.round(np.quantile(finite, np.linspace(0, 1, n)), 9) + 1e-9)
    return [None, *found.tolist()]
