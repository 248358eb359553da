"""Owns the command `score`: how well each uncertainty tells wrong answers from right ones, on saved samples."""

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coe_agents.cli.engine import (
    ActorsOption,
    AddressOption,
    EngineOption,
    GpusOption,
    PartitionOption,
    RayEngine,
    create_scorer,
    engine_of,
    judged_at_most,
    scorer_settings,
    shared,
)
from coe_agents.cli.options import JsonOption

if TYPE_CHECKING:
    from coe_agents.cli.config import Config
    from coe_agents.clustering import Clusterer, EntailmentModel
    from coe_agents.evaluation import Criterion, Samples, Scores
    from coe_agents.policy import Weighting

SamplesArgument = Annotated[
    list[Path],
    typer.Argument(help="Files of saved responses (*.samples.jsonl[.gz], *.parquet), or the folder of a run."),
]
ClustererOption = Annotated[
    Literal["normalized", "tinyworld"] | None,
    typer.Option("--clusterer", help="normalized (the default) needs no model; tinyworld is for its own models."),
]
ConfigFileOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file whose [clusterer] decides which responses mean the same."),
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
    engine: EngineOption = "local",
    address: AddressOption = None,
    actors: ActorsOption = None,
    gpus_per_actor: GpusOption = 0.0,
    partition_size: PartitionOption = 256,
    out: Annotated[Path | None, typer.Option(help="With --engine ray: the folder of the scores, as Parquet.")] = None,
) -> None:
    """Score saved samples: AUROC, AURAC and accuracy of every uncertainty, with 95 % intervals."""
    ray = engine_of(engine, address=address, actors=actors, gpus_per_actor=gpus_per_actor)
    if (ray is None) != (out is None):
        raise typer.BadParameter("it and --engine ray go together", param_hint="--out")
    figures = figures_of(
        samples,
        clusterer=clusterer,
        config=config,
        weighting=weighting,
        correctness=correctness,
        resamples=resamples,
        engine=ray,
        out=out,
        partition_size=partition_size,
    )
    show(figures, as_json=as_json)


def show(figures: dict[str, Any], *, as_json: bool) -> None:
    """Prints a report, as one object or as a table."""
    if as_json:
        print(json.dumps(figures, allow_nan=False))
    else:
        from coe_agents.cli.score_table import show_report

        show_report(figures)


def figures_of(
    samples: list[Path],
    *,
    clusterer: str | None,
    config: Path | None,
    weighting: "Weighting",
    correctness: str,
    resamples: int = 1000,
    engine: RayEngine | None = None,
    out: Path | None = None,
    partition_size: int = 256,
) -> dict[str, Any]:
    """Returns the report on samples; with an engine of Ray the scores are kept in `out`, and go on there.

    Raises:
        BadParameter: The options do not go together.
        CoEError: See `coe_agents.evaluation.score` and `coe_agents.distributed.score`.
    """
    from coe_agents.evaluation import Samples, report
    from coe_agents.evaluation import score as score_samples

    settings = _settings(clusterer, config, correctness)
    setting = setting_of(clusterer, settings, correctness)
    with Samples(samples) as questions:
        if engine is None or out is None:
            scores = score_samples(
                questions,
                clusterer=setting.clusterer,
                weighting=weighting,
                criterion=setting.criterion,
                entailment=setting.entailment,
            )
        else:
            scores = _score_on(
                engine,
                questions,
                out,
                setting,
                config=settings,
                clusterer=clusterer,
                correctness=correctness,
                weighting=weighting,
                partition_size=partition_size,
            )
    return report(scores, n_resamples=resamples)


def _score_on(
    engine: RayEngine,
    questions: "Samples",
    out: Path,
    setting: "Setting",
    *,
    config: "Config | None",
    clusterer: str | None,
    correctness: str,
    weighting: "Weighting",
    partition_size: int,
) -> "Scores":
    import coe_agents
    from coe_agents.cli.progress import progress
    from coe_agents.distributed import cluster
    from coe_agents.distributed import score as score_parts

    told = {
        "coe_agents": coe_agents.__version__,
        "sha256": sorted(_digest(path) for path in questions.paths),
        "correctness": correctness,
        "weighting": weighting,
        **scorer_settings(clusterer, config),
    }
    name = "scored"
    with progress({name: (0, len(questions))}, what="questions") as advance, cluster(engine.address):
        pool = engine.pool(n_parts=-(-len(questions) // partition_size), bound=judged_at_most(config, correctness))
        create = partial(
            create_scorer,
            clusterer=clusterer,
            config=shared(config, pool.n_actors),
            correctness=correctness,
            n_actors=pool.n_actors,
        )
        return score_parts(
            questions,
            create,
            out,
            told,
            pool,
            weighting=weighting,
            size=partition_size,
            criterion=setting.criterion.name,
            clusterer=type(setting.clusterer).__name__,
            on_question=lambda: advance(name, False),
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    return setting_of(clusterer, _settings(clusterer, config, correctness), correctness)


def _settings(clusterer: str | None, config: Path | None, correctness: str) -> "Config | None":
    if clusterer is not None and config is not None and correctness != "judge":
        raise typer.BadParameter("it and --config exclude each other", param_hint="--clusterer")
    if config is None:
        return None
    from coe_agents.cli.ask import load_quietly

    return load_quietly(config)


def setting_of(
    clusterer: str | None, settings: "Config | None", correctness: str, *, judged_at_once: int = 8
) -> Setting:
    """Returns the same, of a configuration; a judge of correctness is asked about so many answers at a time."""
    from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
    from coe_agents.evaluation import CRITERIA, SameMeaning

    judge: Criterion | None = None
    chosen: Clusterer = NormalizedMatch()
    if clusterer == "tinyworld":
        from coe_agents.tinyworld import tinyworld_clusterer

        chosen = tinyworld_clusterer()
    if settings is not None:
        from coe_agents.cli.assemble import create_clusterer, create_judge

        chosen = create_clusterer(settings) if clusterer is None else chosen
        judge = create_judge(settings, at_once=judged_at_once) if correctness == "judge" else None
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
