"""Owns the frontier of policies: thresholds swept on one half of the questions, one chosen, and judged on the other."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coe_agents._plurals import quantity
from coe_agents.evaluation.scoring.correctness import Criterion
from coe_agents.experiments.cascade import cheapest_cascades, measure_stages
from coe_agents.experiments.comparison import Comparison, PolicyOutcomes, compare
from coe_agents.experiments.experiment import Experiment, Figure, add_legend, plain, shown_label
from coe_agents.experiments.replay import ReplayedPolicy, Saved, replay, thresholds_of
from coe_agents.policy import CascadePolicy

FEWEST_HALVED = 4
"""The fewest questions that can be halved: two in each half."""


@dataclass(frozen=True, slots=True)
class Point:
    """One policy at one setting of its thresholds, on the calibration half.

    Attributes:
        thresholds: Those that were set, by name, or by a stage's agents for a cascade; empty if the policy has none.
        price: Cost of 1000 questions, or tokens a question where prices are not known, or requests.
        is_pareto: Whether no other point answers as much at as low a risk and price, and is better in one of them.
    """

    policy: ReplayedPolicy
    thresholds: Mapping[str, float]
    coverage: float
    risk: float
    price: float
    is_pareto: bool = False

    @property
    def label(self) -> str:
        """The policy with its thresholds."""
        shown = ", ".join(f"{name} {value:.3g}" for name, value in self.thresholds.items())
        return f"{self.policy.name} at {shown}" if shown else self.policy.name


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of all policies, the chosen one, and what it does on the other half.

    Attributes:
        points: Of the calibration half.
        risk: What the chosen point may have at most, on that half.
        chosen: The point that answers most within the risk, and of those the cheapest; None if none is within it.
        unit: What `price` is: "cost", "tokens" or "requests".
        judged: The chosen point and each policy as configured, on the other half; None without a chosen point.
    """

    points: tuple[Point, ...]
    risk: float
    chosen: Point | None
    unit: str
    n_calibration: int
    n_test: int
    judged: Comparison | None

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return {
            "risk": self.risk,
            "unit": self.unit,
            "n_calibration": self.n_calibration,
            "n_test": self.n_test,
            "points": [
                {
                    "policy": point.policy.name,
                    "thresholds": dict(point.thresholds),
                    "coverage": point.coverage,
                    "risk": plain(point.risk),
                    "price": plain(point.price),
                    "is_pareto": point.is_pareto,
                    "is_chosen": point is self.chosen,
                }
                for point in self.points
            ],
            "judged": None if self.judged is None else self.judged.to_json(),
        }

    def in_words(self) -> list[str]:
        """Returns what a reader would choose, and what it does on questions that did not choose it."""
        if self.chosen is None or self.judged is None:
            return [f"No policy keeps a risk of {self.risk:g} on the calibration half at any threshold."]
        first = self.judged.policies[0]
        value, low, high = first.figures["risk"]
        kept = "" if np.isnan(value) else f", wrong in {value:.1%} [{low:.1%}, {high:.1%}]"
        coverage = first.figures["coverage"][0]
        return [
            f"Chosen for a risk of {self.risk:g} on {quantity(self.n_calibration, 'question')}: {self.chosen.label}.",
            f"On the other {quantity(self.n_test, 'question')} it answers {coverage:.1%}{kept}.",
            "The choice carries no guarantee; coe-agents calibrate gives one.",
        ]


def halve(saved: Sequence[Saved]) -> tuple[list[Saved], list[Saved]]:
    """Returns a calibration half and a test half; which one a question is in depends on its id alone."""
    keys = {each.question.id: hashlib.sha256(repr(("half", each.question.id)).encode()).digest() for each in saved}
    ordered = sorted(saved, key=lambda each: keys[each.question.id])
    middle = len(ordered) // 2
    return ordered[:middle], ordered[middle:]


def find_frontier(
    saved: Sequence[Saved],
    policies: Sequence[ReplayedPolicy],
    criterion: Criterion,
    *,
    risk: float = 0.1,
    n_thresholds: int = 30,
    n_resamples: int = 1000,
) -> Frontier:
    """Sweeps the thresholds of each policy on one half, chooses the point for a risk, and judges it on the other half.

    Raises:
        ValueError: If there are fewer than four questions.
    """
    if len(saved) < FEWEST_HALVED:
        raise ValueError(f'"saved" must hold at least {FEWEST_HALVED} questions; got {len(saved)}. Add samples')
    calibration, test = halve(saved)
    swept = [
        setting for policy in policies for setting in _sweep(calibration, policy, criterion, risk=risk, n=n_thresholds)
    ]
    found = [(policy, thresholds, replay(calibration, policy, criterion)) for policy, thresholds in swept]
    unit = _unit([outcomes for *_, outcomes in found])
    points = _mark([_point(policy, thresholds, outcomes, unit) for policy, thresholds, outcomes in found])
    within = [point for point in points if point.risk <= risk and point.coverage > 0]
    chosen = min(within, key=lambda point: (-point.coverage, point.price), default=None)
    judged = None
    if chosen is not None:
        sides = [replace(chosen.policy, name=f"{chosen.policy.name}, chosen"), *policies]
        judged = compare([replay(test, each, criterion) for each in sides], n_resamples=n_resamples)
    return Frontier(tuple(points), risk, chosen, unit, len(calibration), len(test), judged)


def _sweep(
    saved: Sequence[Saved], policy: ReplayedPolicy, criterion: Criterion, *, risk: float, n: int
) -> list[tuple[ReplayedPolicy, Mapping[str, float]]]:
    """Returns the policy at each setting of its thresholds.

    A cascade has too many: those are taken that are cheapest within half the risk, the risk, twice the risk, and any.
    """
    tuned: Any = policy.policy
    if isinstance(tuned, CascadePolicy):
        names = [name for stage in tuned.stages for name in stage]
        if any(all(each.available[name] for name in names) for each in saved):
            stages = measure_stages(saved, tuned.stages, criterion, prices=policy.prices or None, of=policy)
            found = cheapest_cascades(stages, risks=(risk / 2, risk, min(2 * risk, 1.0), 1.0), n=n)
            cascades = [each.to_policy(otherwise=tuned.otherwise) for each in found]
            return [
                (replace(policy, policy=own), dict(zip(map("+".join, own.stages), own.cascade_thresholds, strict=True)))
                for own in cascades
            ] or [(policy, {})]
    settings = thresholds_of(saved, policy, n=n)
    return [(replace(policy, policy=tuned.with_thresholds(each)), each) for each in settings] or [(policy, {})]


def _unit(found: Sequence[PolicyOutcomes]) -> str:
    for unit in ("cost", "tokens"):
        if all(getattr(outcome, unit) is not None for each in found for outcome in each.outcomes.values()):
            return unit
    return "requests"


def _point(policy: ReplayedPolicy, thresholds: Mapping[str, float], found: PolicyOutcomes, unit: str) -> Point:
    outcomes = list(found.outcomes.values())
    field = {"cost": "cost", "tokens": "tokens", "requests": "n_requests"}[unit]
    right = [outcome.correct for outcome in outcomes if outcome.is_answered and outcome.correct is not None]
    price = float(np.mean([getattr(outcome, field) for outcome in outcomes])) * (1000 if unit == "cost" else 1)
    return Point(
        policy,
        dict(thresholds),
        float(np.mean([outcome.is_answered for outcome in outcomes])),
        1.0 - float(np.mean(right)) if right else float("nan"),
        price,
    )


def _mark(points: Sequence[Point]) -> list[Point]:
    """Returns the points, those marked that no other one dominates; a point that answers nothing is never marked."""
    figures = [(-point.coverage, point.risk, point.price) for point in points]

    def is_dominated(own: tuple[float, float, float]) -> bool:
        return any(all(a <= b for a, b in zip(other, own, strict=True)) and other != own for other in figures)

    return [
        replace(point, is_pareto=point.coverage > 0 and not np.isnan(point.risk) and not is_dominated(own))
        for point, own in zip(points, figures, strict=True)
    ]


def to_experiment(frontier: Frontier, *, name: str = "compare-frontier") -> Experiment:
    """Returns the points as a table with a picture."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 1)
        for number, policy in enumerate(dict.fromkeys(point.policy.name for point in frontier.points)):
            own = [point for point in frontier.points if point.policy.name == policy and point.coverage > 0]
            for points, marker, label in (
                ([point for point in own if not point.is_pareto], ".", None),
                ([point for point in own if point.is_pareto], "o", shown_label(policy)),
            ):
                across, up = [point.coverage for point in points], [point.risk for point in points]
                axes.plot(across, up, marker, color=f"C{number}", label=label)
        if frontier.chosen is not None:
            chosen = frontier.chosen
            axes.plot(
                [chosen.coverage],
                [chosen.risk],
                "*",
                color="none",
                markeredgecolor="black",
                markersize=15,
                label="chosen",
            )
        axes.axhline(frontier.risk, color="grey", linewidth=0.8, linestyle="--")
        axes.set(xlabel="share answered", ylabel="risk, on the calibration half")
        add_legend(axes)

    return Experiment(
        name=name,
        title="Thresholds swept, on the calibration half",
        columns=("policy", "thresholds", "answered", "risk", frontier.unit, "Pareto", "chosen"),
        rows=tuple(
            (
                point.policy.name,
                ", ".join(f"{key} {value:.4g}" for key, value in point.thresholds.items()) or "as configured",
                point.coverage,
                plain(point.risk),
                plain(point.price),
                "yes" if point.is_pareto else "no",
                "yes" if point is frontier.chosen else "no",
            )
            for point in frontier.points
            if point.is_pareto or point is frontier.chosen
        ),
        draw=draw,
        n_keys=2,
        notes=(
            *frontier.in_words(),
            f"Of {quantity(len(frontier.points), 'point')} the table has those that none dominates.",
        ),
    )
