"""Owns the experiment `epsilon`: what Algorithm 1's threshold of convergence changes (fig:4)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.coordinating import MAX_ITERATIONS, SOLVERS, coordinated
from coe_agents.experiments.experiment import Experiment, Row
from coe_agents.experiments.groups import judge_group
from coe_agents.experiments.paper import band, paper_label, paper_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_NAME = "epsilon"
_SHOWN = ("iterations", "accuracy", "final CoE")
_COLUMNS = ("solver", "epsilon", *_SHOWN, "converged")


def epsilon(questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup) -> Experiment:
    """Returns iterations, accuracy and final CoE of the first two agents at five thresholds, by two solvers."""
    group = judge_group(questions, agents[:2], setup)
    rows: list[Row] = []
    for solver in SOLVERS:
        for threshold in EPSILONS:
            found = coordinated(group, setup, solver=solver, epsilon=threshold)
            rows.append((solver, f"{threshold:.0e}", found.n_iterations, found.accuracy, found.after, found.converged))
    paper = paper_rows(_NAME, _COLUMNS)

    def draw(figure: "Figure") -> None:
        for axes, column in zip(figure.subplots(1, len(_SHOWN)), _SHOWN, strict=True):
            place = _COLUMNS.index(column)
            for solver, marker in zip(SOLVERS, ("o-", "s--"), strict=True):
                own = [row for row in rows if row[0] == solver]
                axes.plot([str(row[1]) for row in own], [row[place] for row in own], marker, label=solver)
            theirs = [(str(row[1]), row[place]) for row in paper if isinstance(row[place], float)]
            if theirs:
                axes.plot(*zip(*theirs, strict=True), "D:", color="tab:red", label="the paper's")
                axes.set_ylim(bottom=0)
            else:
                axes.axhspan(*band(paper[0][place]), color="tab:red", alpha=0.2, label="the paper's")
                axes.set_ylim(0, 1)
            axes.set_xlabel("epsilon")
            axes.set_title(column, fontsize=10)
            axes.legend(fontsize=8)

    return Experiment(
        name=_NAME,
        title="Algorithm 1 at several thresholds of convergence",
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label(_NAME),
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
