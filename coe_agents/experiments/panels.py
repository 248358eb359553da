"""Owns the experiments `triviaqa` and `squad`: all metrics and divergences, from one model to six (fig:2, fig:3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coe_agents.evaluation import SampledQuestion
from coe_agents.experiments.experiment import Experiment, Row
from coe_agents.experiments.groups import DIVERGENCES, METRICS, Setting, judged
from coe_agents.experiments.paper import paper_label, paper_rows
from coe_agents.experiments.ranking import N_RESAMPLES, RANKING_COLUMNS, draw_aurocs, ranking_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("panel", "metric", *RANKING_COLUMNS)
_AT_MOST = 3


def panels(
    name: str,
    title: str,
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setting: Setting,
    *,
    twins: Sequence[str] = (),
) -> Experiment:
    """Returns a panel for each single model, for two, for three, and for two instances of each.

    Args:
        name: "triviaqa" or "squad".
        title: Says which questions they are.
        questions: With the responses of agents and twins.
        agents: The models; the first three count.
        setting: How responses become numbers.
        twins: Second instances of them, which sampled with other seeds; without them the last panel is left out.
    """
    models = list(agents[:_AT_MOST])
    groups = {model: [model] for model in models}
    groups |= {f"{size} models": models[:size] for size in range(2, len(models) + 1)}
    if twins and len(models) == _AT_MOST:
        groups[f"{2 * len(models)} models"] = [*models, *twins[: len(models)]]
    rows: list[Row] = []
    sizes = {}
    for panel, names in groups.items():
        group = judged(questions, names, setting)
        sizes[panel] = f"{' + '.join(names)}, {group.size}"
        rows += [(panel, *row) for row in ranking_rows(group, {**METRICS, **DIVERGENCES})]
    paper = paper_rows(name, _COLUMNS)

    def draw(figure: "Figure") -> None:
        grid = figure.subplots(-(-len(groups) // 3), min(3, len(groups)), squeeze=False)
        for axes in grid.flat[len(groups) :]:
            axes.axis("off")
        for place, panel in enumerate(groups):
            own = [dict(zip(_COLUMNS, row, strict=True)) for row in rows if row[0] == panel]
            theirs = {row[1]: row[_COLUMNS.index("AUROC")] for row in paper if row[0] == panel}
            draw_aurocs(grid.flat[place], own, theirs, title=panel, legend=place == 0)

    return Experiment(
        name=name,
        title=title,
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        paper=paper,
        label=paper_label(name),
        draw=draw,
        settings={
            **sizes,
            "intervals": f"95 %, {N_RESAMPLES} paired bootstrap resamples",
        },
        notes=(
            "Of one model U_E is 0 for every question, and CoE is its semantic entropy.",
            "The paper prints this figure without numbers; beside ours stand those of its text.",
            *(() if f"{2 * _AT_MOST} models" in groups else ("Six models need a second instance of each of three.",)),
        ),
        width=14.0,
        height=4.0 * -(-len(groups) // 3) + 0.5,
    )
