"""Owns Algorithm 1 over a group of questions, and the experiments `epsilon` (fig:4) and `divergences` (fig:6) on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.evaluation.scoring.correctness import judge_clusters, mean_verdict
from coe_agents.experiments.experiment import Experiment, Figure, Row, band, paper_label, paper_rows
from coe_agents.experiments.groups import JudgedGroup, judge_group
from coe_agents.uncertainty import coordinate, ensemble_mean
from coe_agents.uncertainty.ties import shares_lead

SOLVERS = ("greedy", "softmax")
"""The literal algorithm, and a smooth one that the paper allows in its place."""
MAX_ITERATIONS = {"greedy": 10, "softmax": 200}
"""The paper's bound for the literal algorithm; enough for the smooth one to converge."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over the questions: CoE before and after Algorithm 1, its iterations, and shares of the questions.

    `converged`: those that stopped by epsilon; `risen`: those whose CoE rose; `accuracy`: those whose answer by the
    last weights and distributions is right, of a tie the share of its answers.
    """

    before: float
    after: float
    n_iterations: float
    converged: float
    risen: float
    accuracy: float


def coordinate_group(
    group: JudgedGroup, setup: ScoringSetup, *, solver: str, divergence: str = "kl", epsilon: float = 1e-6
) -> Outcome:
    """Runs Algorithm 1 on every question of a group."""
    run = partial(coordinate, divergence=divergence, epsilon=epsilon, solver=solver)
    found = [run(each.distributions, max_iterations=MAX_ITERATIONS[solver]) for each in group.statistics]
    means = (ensemble_mean(each.distributions, weights=each.weights) for each in found)
    leading = [np.flatnonzero(shares_lead(mean)).tolist() for mean in means]
    judged = judge_clusters(zip(group.statistics, leading, strict=True), setup.criterion)
    shares = [mean_verdict(verdicts) or 0.0 for _, verdicts in judged]
    figures = [
        (it.initial_coe, it.coe, it.n_iterations, it.converged, it.coe > it.initial_coe + 1e-9, right)
        for it, right in zip(found, shares, strict=True)
    ]
    return Outcome(*np.mean(figures, axis=0).tolist())


_EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_EPSILON_DRAWN = ("iterations", "accuracy", "final CoE")
_EPSILON_COLUMNS = ("solver", "epsilon", *_EPSILON_DRAWN, "converged")


def epsilon(questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup) -> Experiment:
    """Returns iterations, accuracy and final CoE of the first two agents at five thresholds, by two solvers."""
    group = judge_group(questions, agents[:2], setup)
    rows: list[Row] = []
    for solver in SOLVERS:
        for threshold in _EPSILONS:
            found = coordinate_group(group, setup, solver=solver, epsilon=threshold)
            rows.append((solver, f"{threshold:.0e}", found.n_iterations, found.accuracy, found.after, found.converged))
    paper = paper_rows("epsilon", _EPSILON_COLUMNS)

    def draw(figure: Figure) -> None:
        for axes, column in zip(figure.subplots(1, len(_EPSILON_DRAWN)), _EPSILON_DRAWN, strict=True):
            place = _EPSILON_COLUMNS.index(column)
            for solver, marker in zip(SOLVERS, ("o-", "s--"), strict=True):
                own = [row for row in rows if row[0] == solver]
                axes.plot([str(row[1]) for row in own], [row[place] for row in own], marker, label=solver)
            theirs = [(str(row[1]), row[place]) for row in paper if isinstance(row[place], float)]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), "D:", color="tab:red", label="the paper's")
            else:
                axes.axhspan(*band(paper[0][place]), color="tab:red", alpha=0.2, label="the paper's")
            axes.set(xlabel="epsilon", ylim=(0, None if theirs else 1))
            axes.set_title(column, fontsize=10)
            axes.legend(fontsize=8)

    return Experiment(
        name="epsilon",
        title="Algorithm 1 at several thresholds of convergence",
        columns=_EPSILON_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label("epsilon"),
        draw=draw,
        settings={
            "group": f"{' + '.join(agents[:2])}, {group.size}",
            "iterations": ", ".join(f"{solver} at most {MAX_ITERATIONS[solver]}" for solver in SOLVERS),
        },
        notes=(
            "Means over the questions. greedy is the algorithm as printed: it converges at its second iteration.",
            "The literal algorithm's CoE of two models ends at 0 or log 2 = 0.693, so a mean of 0.88 is out of reach.",
        ),
        width=12.0,
        height=4.5,
    )


_DIVERGENCES = ("kl", "js", "hellinger", "wasserstein")
_DIVERGENCE_COLUMNS = (
    "solver",
    "divergence",
    "CoE before",
    "CoE after",
    "CoE rose",
    "accuracy before",
    "accuracy after",
    "gain",
)


def divergences(questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup) -> Experiment:
    """Returns CoE before and after Algorithm 1 for the first two agents, and the gain in accuracy, as shares.

    Accuracy before is that of the group's answer without the algorithm. Wasserstein is over the 0/1 ground metric.
    """
    group = judge_group(questions, agents[:2], setup)
    before = float(group.correct.mean())
    rows: list[Row] = []
    for solver in SOLVERS:
        for divergence in _DIVERGENCES:
            found = coordinate_group(group, setup, solver=solver, divergence=divergence)
            gain = found.accuracy - before
            rows.append((solver, divergence, found.before, found.after, found.risen, before, found.accuracy, gain))
    paper = paper_rows("divergences", _DIVERGENCE_COLUMNS)

    def draw(figure: Figure) -> None:
        for axes, solver in zip(figure.subplots(1, len(SOLVERS), sharey=True), SOLVERS, strict=True):
            own = [row for row in rows if row[0] == solver]
            for shift, column, colour in ((-0.2, "CoE before", "lightsteelblue"), (0.2, "CoE after", "tab:blue")):
                heights = [row[_DIVERGENCE_COLUMNS.index(column)] for row in own]
                axes.bar([place + shift for place in range(len(own))], heights, 0.38, color=colour, label=column)
            for place, row in enumerate(own):
                theirs = [each[-1] for each in paper if each[:2] == row[:2]]
                text = f"gain {row[-1]:+.1%}" + "".join(f"\npaper {value:+.1%}" for value in theirs)
                top = 1.02 * max(float(row[2] or 0), float(row[3] or 0))
                axes.text(place, top, text, ha="center", va="bottom", fontsize=8)
            axes.set_xticks(range(len(own)), [row[1] for row in own])
            axes.set_title(f"solver: {solver}", fontsize=10)
            axes.margins(y=0.25)
            axes.legend(fontsize=8, loc="upper right", ncols=2)
        figure.axes[0].set_ylabel("CoE, mean over the questions")

    return Experiment(
        name="divergences",
        title="CoE before and after Algorithm 1, and the gain in accuracy",
        columns=_DIVERGENCE_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label("divergences"),
        draw=draw,
        settings={"group": f"{' + '.join(agents[:2])}, {group.size}"},
        notes=(
            "Where the literal algorithm (greedy) ends does not depend on the divergence: its four gains are equal.",
            "Values of CoE under different divergences are on different scales.",
        ),
        width=11.0,
    )
