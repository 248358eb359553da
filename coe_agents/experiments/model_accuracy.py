"""Owns the experiment `model-accuracy`: how often each model alone is right (tab:1)."""

from collections.abc import Mapping, Sequence

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.experiment import Cell, Experiment, Row, paper_label, paper_rows
from coe_agents.experiments.groups import judge_group

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

    return Experiment(
        name=_NAME,
        title="Accuracy of each model alone",
        columns=_COLUMNS,
        n_keys=2,
        rows=rows,
        paper=paper,
        label=paper_label(_NAME),
        notes=(
            "A model's answer is the most probable response of its largest cluster.",
            "Where its largest clusters tie, the share of them that is right counts.",
        ),
    )
