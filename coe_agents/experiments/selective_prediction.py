"""Owns the experiment `selective-prediction`: how well each metric tells wrong answers from right ones (tab:2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coe_agents.evaluation import SampledQuestion
from coe_agents.experiments.experiment import Experiment, Row
from coe_agents.experiments.groups import METRICS, Setting, judged
from coe_agents.experiments.paper import paper_label, paper_rows
from coe_agents.experiments.ranking import N_RESAMPLES, RANKING_COLUMNS, draw_aurocs, ranking_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = "selective-prediction"
_COLUMNS = ("models", "metric", *RANKING_COLUMNS)


def selective_prediction(questions: Sequence[SampledQuestion], agents: Sequence[str], setting: Setting) -> Experiment:
    """Returns all metrics of the first two and the first three agents; every baseline is the mean over the models.

    Args:
        questions: With the responses of the agents.
        agents: At least two, in the order in which they join the group.
        setting: How responses become numbers.
    """
    rows: list[Row] = []
    told = {}
    for size in [size for size in (2, 3) if size <= len(agents)]:
        group = judged(questions, agents[:size], setting)
        rows += [(size, *row) for row in ranking_rows(group, METRICS)]
        told[f"{size} models"] = f"{' + '.join(agents[:size])}, {group.size}"
    paper = paper_rows(_NAME, _COLUMNS)

    def draw(figure: "Figure") -> None:
        sizes = list(dict.fromkeys(row[0] for row in rows))
        for place, (axes, size) in enumerate(zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True)):
            own = [dict(zip(_COLUMNS, row, strict=True)) for row in rows if row[0] == size]
            theirs = {row[1]: row[_COLUMNS.index("AUROC")] for row in paper if row[0] == size}
            draw_aurocs(axes, own, theirs, title=f"{size} models", legend=place == 0)

    return Experiment(
        name=_NAME,
        title="Selective prediction by each uncertainty metric",
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label(_NAME),
        draw=draw,
        settings={**told, "intervals": f"95 %, {N_RESAMPLES} paired bootstrap resamples"},
        notes=(
            "Semantic Entropy and U_A are the same number by definition; the paper prints two.",
            "The paper's AURAC is 0.1 (a80/2 + a90 + a95 + a100/2); AURAC is the mean accuracy over all retentions.",
            "The paper's columns 80% and 95% of three models are swapped: only so do they give its AURAC.",
        ),
    )
