"""Owns chains of questions in a run: where they go wrong, and whether the uncertainty along the way shows it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coe_agents._plurals import quantity
from coe_agents.evaluation.decisions import Item, Run
from coe_agents.evaluation.metrics.selective_prediction import auroc
from coe_agents.experiments.experiment import Experiment, Figure, add_legend, plain, shown_label
from coe_agents.experiments.output import format_cell


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step of the chains of a run; a figure is NaN if no chain counts for it.

    Attributes:
        step: From 1.
        n_asked: How many chains came so far.
        answered: The share of these that the step answered.
        accuracy: The share of its answers that is right.
        coe_right: Mean CoE of the step where its leading answer is right.
        coe_wrong: Where it is wrong.
    """

    step: int
    n_asked: int
    answered: float
    accuracy: float
    coe_right: float
    coe_wrong: float


@dataclass(frozen=True, slots=True)
class ChainFigures:
    """The chains of one run.

    Attributes:
        steps: Figures of each step.
        complete: The share of chains of which every question was answered.
        all_right: The share of chains that are complete and right at every step.
        auroc_sum: Of the sum of CoE along a chain, for telling apart chains with a wrong step and those without; in
            [0, 1], 0.5 by chance, NaN where all are alike. The verdicts are those of the leading answers.
        auroc_last: Of the last step's CoE alone.
        located: The share of chains with a wrong step in which the first wrong one has the highest CoE of the chain.
            Where several steps have it, such a chain counts by the chance that one of them is the first wrong one.
        located_by_chance: That share if any asked step were as likely.
    """

    name: str
    n_chains: int
    steps: tuple[StepFigures, ...]
    complete: float
    all_right: float
    auroc_sum: float
    auroc_last: float
    located: float
    located_by_chance: float

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON has it; what is not known is null."""
        whole, steps = asdict(self), [asdict(step) for step in self.steps]
        return {**_without_nan(whole), "steps": [_without_nan(step) for step in steps]}

    def in_words(self) -> str:
        """Returns what a reader would want to know first."""
        chains = quantity(self.n_chains, "chain is", "chains are")
        words = f"{self.name}: {self.complete:.1%} of {chains} answered to the end"
        if not np.isnan(self.located):
            words += (
                f"; in {self.located:.0%} of those with a wrong step the first wrong one is the most uncertain "
                f"(by chance {self.located_by_chance:.0%})"
            )
        return f"{words}."


def _without_nan(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) if isinstance(value, float) else value for name, value in figures.items()}


def chain_figures(run: Run, *, name: str | None = None) -> ChainFigures | None:
    """Returns the figures of a run's chains; None if it has none."""
    chains = [item for item in run.items.values() if item.is_chain]
    if not chains:
        return None
    longest = max(len(chain.steps) for chain in chains)
    paths = [
        (np.array([step.decision["coe"] for step in chain.steps], dtype=float), _is_wrong(chain)) for chain in chains
    ]
    judged = [(coe, wrong) for coe, wrong in paths if not np.isnan(wrong).any()]
    broken = [(coe, wrong) for coe, wrong in judged if wrong.any()]
    correct = [float(not wrong.any()) for _, wrong in judged]
    return ChainFigures(
        name=name or run.name,
        n_chains=len(chains),
        steps=tuple(_step(chains, number) for number in range(longest)),
        complete=float(np.mean([chain.is_answered for chain in chains])),
        all_right=float(
            np.mean([chain.is_answered and all(step.correct == 1 for step in chain.steps) for chain in chains])
        ),
        auroc_sum=_auroc(correct, [coe.sum() for coe, _ in judged]),
        auroc_last=_auroc(correct, [coe[-1] for coe, _ in judged]),
        located=_mean([_located(coe, wrong) for coe, wrong in broken]),
        located_by_chance=_mean([1.0 / len(coe) for coe, _ in broken]),
    )


def _located(coe: np.ndarray, wrong: np.ndarray) -> float:
    """Returns the chance that a step of the highest CoE is the first wrong one."""
    highest = coe >= coe.max() - 1e-9  # closer values differ by rounding only
    return float(highest[wrong.argmax()] / highest.sum())


def _is_wrong(chain: Item) -> np.ndarray:
    """Returns for each step whether its leading answer is wrong, as 1 or 0; NaN where that is not known."""
    last = [step.verdicts[-1] if step.verdicts else None for step in chain.steps]
    return np.array([np.nan if verdict is None else float(verdict < 1) for verdict in last])


def _step(chains: Sequence[Item], number: int) -> StepFigures:
    steps = [chain.steps[number] for chain in chains if number < len(chain.steps)]
    verdicts = [(step.verdicts[-1] if step.verdicts else None, step.decision["coe"]) for step in steps]
    return StepFigures(
        step=number + 1,
        n_asked=len(steps),
        answered=_mean([float(step.action == "answer") for step in steps]),
        accuracy=_mean([step.correct for step in steps if step.correct is not None]),
        coe_right=_mean([coe for verdict, coe in verdicts if verdict == 1]),
        coe_wrong=_mean([coe for verdict, coe in verdicts if verdict is not None and verdict < 1]),
    )


def _auroc(correct: Sequence[float], uncertainty: Sequence[float]) -> float:
    return auroc(correct=correct, uncertainty=uncertainty) if correct else float("nan")


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def to_experiment(found: Sequence[ChainFigures]) -> Experiment:
    """Returns the steps of all runs as a table with a picture."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 1)
        for number, each in enumerate(found):
            steps = [step.step for step in each.steps]
            for mark, means, what in (
                ("o-", [step.coe_right for step in each.steps], "right"),
                ("x--", [step.coe_wrong for step in each.steps], "wrong"),
            ):
                axes.plot(steps, means, mark, color=f"C{number}", label=shown_label(f"{each.name}, {what}"))
        axes.set(
            xlabel="step of the chain",
            ylabel="mean CoE of the step",
            xticks=range(1, 1 + max(len(e.steps) for e in found)),
        )
        add_legend(axes)

    return Experiment(
        name="compare-chains",
        title="Chains of questions, step by step",
        columns=("policy", "step", "asked", "answered", "accuracy of answered", "CoE where right", "CoE where wrong"),
        rows=tuple(
            (
                each.name,
                step.step,
                step.n_asked,
                *map(plain, (step.answered, step.accuracy, step.coe_right, step.coe_wrong)),
            )
            for each in found
            for step in each.steps
        ),
        draw=draw,
        n_keys=2,
        notes=tuple(
            f"{each.in_words()} AUROC for a wrong step: sum {format_cell(plain(each.auroc_sum))}, last step "
            f"{format_cell(plain(each.auroc_last))}."
            for each in found
        ),
    )
