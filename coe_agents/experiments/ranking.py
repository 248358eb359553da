"""Owns the comparison of metrics over groups: the experiments `selective-prediction`, `triviaqa` and `squad`.

They are the paper's tab:2, fig:2 and fig:3; tab:1, `model-accuracy`, is how often each model alone is right.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.metrics.bootstrap import estimate_all
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.experiments.experiment import Axes, Cell, Experiment, Figure, Row, paper_rows, plain
from coe_agents.experiments.groups import DIVERGENCES, METRICS, JudgedGroup, judge_group

RANKING_COLUMNS = (
    "AUROC",
    "AUROC low",
    "AUROC high",
    "AURAC",
    "paper's AURAC",
    *(f"{share:.0%}" for share in RETENTIONS),
    "less CoE's",
    "less CoE's low",
    "less CoE's high",
)
"""AUROC with its 95 % interval, both areas, accuracy at each retention, and AUROC less that of CoE (paired)."""

_N_RESAMPLES = 1000
_MOST_MODELS = 3


def selective_prediction(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup
) -> Experiment:
    """Returns all metrics of the first two and the first three agents; every baseline is the mean over the models."""
    groups: dict[Cell, Sequence[str]] = {size: agents[:size] for size in (2, 3) if size <= len(agents)}
    return _compare(
        groups,
        METRICS,
        questions,
        setup,
        name="selective-prediction",
        title="Selective prediction by each uncertainty metric",
        key="models",
        notes=(
            "Semantic Entropy and U_A are the same number by definition; the paper prints two.",
            "The paper's AURAC is 0.1 (a80/2 + a90 + a95 + a100/2); AURAC is the mean accuracy over all retentions.",
            "The paper's columns 80% and 95% of three models are swapped: only so do they give its AURAC.",
        ),
    )


def panels(
    name: str,
    title: str,
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    *,
    twins: Sequence[str] = (),
) -> Experiment:
    """Returns a panel for each single model, for two, for three, and for two instances of each.

    The first three agents count. `twins` are second instances of them, which sampled with other seeds; without them
    the last panel is left out. `name` is "triviaqa" or "squad", and `title` says which questions they are.
    """
    models = list(agents[:_MOST_MODELS])
    groups: dict[Cell, Sequence[str]] = {model: [model] for model in models}
    groups |= {f"{size} models": models[:size] for size in range(2, len(models) + 1)}
    if twins and len(models) == _MOST_MODELS:
        groups["6 models"] = [*models, *twins[:_MOST_MODELS]]
    return _compare(
        groups,
        {**METRICS, **DIVERGENCES},
        questions,
        setup,
        name=name,
        title=title,
        key="panel",
        notes=(
            "Of one model U_E is 0 for every question, and CoE is its semantic entropy.",
            "The paper prints this figure without numbers; the ones shown here are from its text.",
            *(() if "6 models" in groups else ("Six models need a second instance of each of three.",)),
        ),
        width=14.0,
        height=4.0 * -(-len(groups) // 3) + 0.5,
    )


def _compare(
    groups: Mapping[Cell, Sequence[str]],
    metrics: Mapping[str, str],
    questions: Sequence[SampledQuestion],
    setup: ScoringSetup,
    *,
    name: str,
    title: str,
    key: str,
    **layout: Any,
) -> Experiment:
    columns = (key, "metric", *RANKING_COLUMNS)
    titles = {group: group if isinstance(group, str) else f"{group} models" for group in groups}
    rows: list[Row] = []
    settings = {}
    for group, agents in groups.items():
        judged = judge_group(questions, agents, setup)
        rows += [(group, *row) for row in _ranking_rows(judged, metrics)]
        settings[titles[group]] = f"{' + '.join(agents)}, {judged.size}"
    paper = paper_rows(name, columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(-(-len(groups) // 3), min(3, len(groups)), squeeze=False)
        for axes in grid.flat[len(groups) :]:
            axes.axis("off")
        for place, group in enumerate(groups):
            own = [dict(zip(columns, row, strict=True)) for row in rows if row[0] == group]
            theirs = {row[1]: row[columns.index("AUROC")] for row in paper if row[0] == group}
            _draw_aurocs(grid.flat[place], own, theirs, title=titles[group], legend=place == 0)

    return Experiment(
        name=name,
        title=title,
        columns=columns,
        n_keys=2,
        rows=tuple(rows),
        draw=draw,
        settings={**settings, "intervals": f"95 %, {_N_RESAMPLES} paired bootstrap resamples"},
        **layout,
    )


def _ranking_rows(group: JudgedGroup, metrics: Mapping[str, str]) -> list[Row]:
    vectors = {name: group.values(estimator) for name, estimator in metrics.items()}
    known = {name: vector for name, vector in vectors.items() if vector is not None}
    found, differences = estimate_all(group.correct, known, reference="CoE", n_resamples=_N_RESAMPLES)
    rows: list[Row] = []
    for name in metrics:
        if name not in found:
            rows.append((name, *[None] * len(RANKING_COLUMNS)))
            continue
        of = found[name]
        shares = [of[f"accuracy at {share}"][0] for share in RETENTIONS]
        areas = [of["aurac"][0], of["paper_aurac"][0]]
        less = differences[name]["auroc"] if name in differences else (math.nan,) * 3
        rows.append((name, *map(plain, (*of["auroc"], *areas, *shares, *less))))
    return rows


def _draw_aurocs(
    axes: Axes, rows: Sequence[Mapping[str, Cell]], paper: Mapping[Cell, Cell], *, title: str, legend: bool = False
) -> None:
    names = [str(row["metric"]) for row in rows]
    for place, row in enumerate(rows):
        value, low, high = (row[column] for column in ("AUROC", "AUROC low", "AUROC high"))
        if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
            colour = "tab:purple" if row["metric"] == "CoE" else "tab:blue"
            axes.barh(place, value, color=colour, alpha=0.75)
            axes.errorbar(value, place, xerr=[[value - low], [high - value]], color="black", capsize=2, linewidth=1)
        else:
            axes.text(0.02, place, "not computable", va="center", fontsize=8, color="grey")
        theirs = paper.get(row["metric"])
        if isinstance(theirs, float):
            axes.plot(theirs, place, "D", color="tab:orange", markeredgecolor="black", zorder=3)
    diamond = axes.plot([], [], "D", color="tab:orange", markeredgecolor="black", label="the paper's")
    chance = axes.axvline(0.5, color="grey", linestyle=":", linewidth=1, label="chance")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0.0, 1.0), xlabel="AUROC, with its 95 % interval")
    axes.set_title(title, fontsize=10)
    if legend:
        axes.figure.legend(handles=[*diamond, chance], loc="upper right", ncols=2, fontsize=8)


_BY_SPLIT = [column.format(split) for split in ("train", "validation") for column in ("{} accuracy", "n {}", "ties {}")]
_ACCURACIES = ("model", "dataset", *_BY_SPLIT)


def model_accuracy(
    datasets: Mapping[str, tuple[Sequence[SampledQuestion] | None, Sequence[SampledQuestion]]],
    agents: Sequence[str],
    setup: ScoringSetup,
) -> Experiment:
    """Returns each model's accuracy by dataset and split; its answer is that of its own leading cluster.

    `datasets` holds training questions, or None, and validation questions, by the dataset's name.
    """

    def accuracy(questions: Sequence[SampledQuestion] | None, model: str) -> tuple[Cell, Cell, Cell]:
        if questions is None:
            return None, None, None
        alone = judge_group(questions, [model], setup)
        return float(alone.correct.mean()), alone.correct.size, alone.n_ties

    rows: tuple[Row, ...] = tuple(
        (model, dataset, *accuracy(train, model), *accuracy(validation, model))
        for model in agents
        for dataset, (train, validation) in datasets.items()
    )

    return Experiment(
        name="model-accuracy",
        title="Accuracy of each model alone",
        columns=_ACCURACIES,
        n_keys=2,
        rows=rows,
        notes=(
            "A model's answer is the most probable response of its largest cluster.",
            "Where its largest clusters tie, the share of them that is right counts.",
        ),
    )
