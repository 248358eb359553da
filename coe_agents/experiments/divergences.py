"""Owns the experiment `divergences`: CoE before and after Algorithm 1 under four divergences, and its gain (fig:6)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.coordinating import SOLVERS, coordinated
from coe_agents.experiments.experiment import Experiment, Row
from coe_agents.experiments.groups import judge_group
from coe_agents.experiments.paper import paper_label, paper_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIVERGENCES = ("kl", "js", "hellinger", "wasserstein")
_NAME = "divergences"
_COLUMNS = ("solver", "divergence", "CoE before", "CoE after", "CoE rose", "accuracy before", "accuracy after", "gain")


def divergences(questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup) -> Experiment:
    """Returns CoE before and after Algorithm 1 for the first two agents, and the gain in accuracy, as shares.

    Accuracy before is that of the group's answer without the algorithm. Wasserstein is over the 0/1 ground metric.
    """
    group = judge_group(questions, agents[:2], setup)
    before = float(group.correct.mean())
    rows: list[Row] = []
    for solver in SOLVERS:
        for divergence in _DIVERGENCES:
            found = coordinated(group, setup, solver=solver, divergence=divergence)
            gain = found.accuracy - before
            rows.append((solver, divergence, found.before, found.after, found.risen, before, found.accuracy, gain))
    paper = paper_rows(_NAME, _COLUMNS)

    def draw(figure: "Figure") -> None:
        for axes, solver in zip(figure.subplots(1, len(SOLVERS), sharey=True), SOLVERS, strict=True):
            own = [row for row in rows if row[0] == solver]
            for shift, column, colour in ((-0.2, "CoE before", "lightsteelblue"), (0.2, "CoE after", "tab:blue")):
                heights = [row[_COLUMNS.index(column)] for row in own]
                axes.bar([place + shift for place in range(len(own))], heights, 0.38, color=colour, label=column)
            for place, row in enumerate(own):
                theirs = [each[-1] for each in paper if each[:2] == row[:2]]
                text = f"gain {row[-1]:+.1%}" + "".join(f"\npaper {value:+.1%}" for value in theirs)
                axes.text(
                    place,
                    1.02 * max(float(row[2] or 0), float(row[3] or 0)),
                    text,
                    ha="center",
                    va="bottom",
                    fontsize=8,
                )
            axes.set_xticks(range(len(own)), [row[1] for row in own])
            axes.set_title(f"solver: {solver}", fontsize=10)
            axes.margins(y=0.25)
            axes.legend(fontsize=8, loc="upper right", ncols=2)
        figure.axes[0].set_ylabel("CoE, mean over the questions")

    return Experiment(
        name=_NAME,
        title="CoE before and after Algorithm 1, and the gain in accuracy",
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label(_NAME),
        draw=draw,
        settings={"group": f"{' + '.join(agents[:2])}, {group.size}"},
        notes=(
            "Where the literal algorithm (greedy) ends does not depend on the divergence: its four gains are equal.",
            "Values of CoE under different divergences are on different scales.",
        ),
        width=11.0,
    )
