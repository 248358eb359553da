"""Owns the experiment `model-accuracy`: how often each model alone is right (tab:1)."""

from collections.abc import Mapping, Sequence

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.experiment import Cell, Experiment, Figure, Row
from coe_agents.experiments.groups import judge_group
from coe_agents.experiments.paper import paper_label, paper_rows

_NAME = "model-accuracy"
_COLUMNS = (
    "model",
    "dataset",
    "train accuracy",
    "n train",
    "ties train",
    "validation accuracy",
    "n validation",
    "ties validation",
)


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
    paper = paper_rows(_NAME, _COLUMNS)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shown = [(row, 0.0) for row in rows] + [(row, 0.6) for row in paper]
        for shift, split, colour in ((-0.2, "train accuracy", "tab:green"), (0.2, "validation accuracy", "tab:blue")):
            column = _COLUMNS.index(split)
            known = [(place + gap + shift, row[column]) for place, (row, gap) in enumerate(shown)]
            heights = [float(value) if isinstance(value, float) else 0.0 for _, value in known]
            bars = axes.bar([place for place, _ in known], heights, 0.38, color=colour, alpha=0.75, label=split)
            axes.bar_label(bars, [f"{value:.3g}" if value is not None else "-" for _, value in known], fontsize=7)
        axes.axvline(len(rows) - 0.2, color="grey", linestyle=":")
        axes.text(len(rows) - 0.15, 1.08, "the paper's", fontsize=9)
        names = [f"{row[0]}\n{row[1]}" for row, _ in shown]
        places = [place + gap for place, (_, gap) in enumerate(shown)]
        axes.set_xticks(places, names, fontsize=8, rotation=30, ha="right")
        axes.set(ylim=(0, 1.15), ylabel="accuracy")
        axes.legend(fontsize=8, loc="upper left")

    return Experiment(
        name=_NAME,
        title="Accuracy of each model alone",
        columns=_COLUMNS,
        n_keys=2,
        rows=rows,
        paper=paper,
        label=paper_label(_NAME),
        draw=draw,
        notes=(
            "A model's answer is the most probable response of its largest cluster.",
            "Where its largest clusters tie, the share of them that is right counts.",
        ),
    )
