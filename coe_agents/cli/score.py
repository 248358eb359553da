"""Owns the command `score`: how well each uncertainty tells wrong answers from right ones, on saved samples."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coe_agents.cli.options import JsonOption

if TYPE_CHECKING:
    from coe_agents.clustering import Clusterer, EntailmentModel
    from coe_agents.evaluation import Criterion

SamplesArgument = Annotated[
    list[Path], typer.Argument(help="Files of saved responses, one JSON object a line (*.samples.jsonl[.gz]).")
]
ClustererOption = Annotated[
    Literal["normalized", "tinyworld"] | None,
    typer.Option("--clusterer", help="normalized (the default) needs no model; tinyworld is for its own models."),
]
ConfigFileOption = Annotated[
    Path | None, typer.Option("--config", help="TOML file whose [clusterer] decides which responses mean the same.")
]
WeightingOption = Annotated[
    Literal["auto", "frequency", "probability"],
    typer.Option(help="How responses count; auto: by probability where an agent has it for all of its own."),
]
CorrectnessOption = Annotated[
    Literal["reference_or_label", "reference", "label", "f1", "rouge_l", "entailment", "judge"],
    typer.Option(
        help="When an answer is right. entailment needs --config with an entailment model, judge one with [judge]."
    ),
]

ResamplesOption = Annotated[int, typer.Option(min=1, help="Of the bootstrap behind every interval.")]


def score(
    samples: SamplesArgument,
    clusterer: ClustererOption = None,
    config: ConfigFileOption = None,
    weighting: WeightingOption = "auto",
    correctness: CorrectnessOption = "reference_or_label",
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
) -> None:
    """Score saved samples: AUROC, AURAC and accuracy of every uncertainty, with 95 % intervals."""
    from coe_agents.evaluation import Samples, report
    from coe_agents.evaluation import score as score_samples

    setting = to_setting(clusterer, config, correctness)
    with Samples(samples) as questions:
        scores = score_samples(
            questions,
            clusterer=setting.clusterer,
            weighting=weighting,
            criterion=setting.criterion,
            entailment=setting.entailment,
        )
    figures = report(scores, n_resamples=resamples)
    if as_json:
        print(json.dumps(figures, allow_nan=False))
    else:
        from coe_agents.cli.score_table import show_report

        show_report(figures)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the options of `score`, `report`, `calibrate` and `drift` name."""

    clusterer: "Clusterer"
    criterion: "Criterion"
    entailment: "EntailmentModel | None"


def to_setting(clusterer: str | None, config: Path | None, correctness: str) -> Setting:
    """Returns the clusterer, the criterion and, where one is at hand, the entailment model.

    Raises:
        BadParameter: The options do not go together.
        ConfigurationError: The file is faulty.
    """
    from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
    from coe_agents.evaluation import CRITERIA, SameMeaning

    judge: Criterion | None = None
    if clusterer is not None and config is not None and correctness != "judge":
        raise typer.BadParameter("it and --config exclude each other", param_hint="--clusterer")
    chosen: Clusterer = NormalizedMatch()
    if clusterer == "tinyworld":
        from coe_agents.tinyworld import tinyworld_clusterer

        chosen = tinyworld_clusterer()
    elif config is not None:
        from coe_agents.cli.ask import load_quietly

        settings = load_quietly(config)
        if settings is not None:
            from coe_agents.cli.assemble import create_clusterer, create_judge

            chosen = create_clusterer(settings) if clusterer is None else chosen
            judge = create_judge(settings) if correctness == "judge" else None
    model = chosen.model if isinstance(chosen, BidirectionalEntailment) else None
    if correctness == "entailment" and model is None:
        raise typer.BadParameter(
            '"entailment" needs an entailment model. Name one: --config FILE with [clusterer] kind = "entailment"',
            param_hint="--correctness",
        )
    if correctness == "judge":
        if judge is None:
            raise typer.BadParameter(
                '"judge" needs a model that judges. Name one: --config FILE with [judge]', param_hint="--correctness"
            )
        return Setting(chosen, judge, model)
    criterion = SameMeaning(chosen) if correctness == "entailment" else CRITERIA[correctness]
    return Setting(chosen, criterion, model)
