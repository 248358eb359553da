"""Owns the command `score`: how well each uncertainty score separates wrong answers from right ones."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.collector import ROWS, rare_collections
from coe_agents.cli.engine import create_pool, ray_options, share_limits
from coe_agents.cli.options import (
    EngineOptions,
    JsonOption,
    PartitionOption,
    ProposerOption,
    ResamplesOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import print_json

if TYPE_CHECKING:
    from coe_agents.clustering import Clusterer
    from coe_agents.config.schema import Config
    from coe_agents.evaluation import Criterion, Scores, ScoringSetup
    from coe_agents.evaluation.scoring import TalliedScores
    from coe_agents.evaluation.scoring.estimators import Estimator

_JUDGED_AT_ONCE = 8


@expand_options
def score(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    engine: EngineOptions,
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
    proposer: ProposerOption = None,
    partition_size: PartitionOption = 256,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the scores, as Parquet; required with --engine ray.")
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="A score of yours, as package.module:name, whose code is run. May be given several times."),
    ] = None,
    tally: Annotated[
        bool,
        typer.Option(
            "--tally",
            help="Keep tallies in place of scores: memory does not grow with the questions, figures are approximate. "
            "The output says by how much at most. Meant for ten thousand questions and more.",
        ),
    ] = False,
) -> None:
    """Show how well each uncertainty score separates wrong answers from right ones, on saved responses.

    The measures are AUROC, AURAC and the accuracy on the most certain questions, with 95 % intervals. With --proposer,
    what may be wrong is the first response of one agent. Proposals of tool calls are also reported apart from those
    that call nothing.
    """
    ray = ray_options(engine)
    if (ray is None) != (out is None):
        raise typer.BadParameter("--out and --engine ray require each other. Give both or neither", param_hint="--out")
    if ray is not None and estimator:
        message = "it cannot be combined with --engine ray. Register it as an entry point of an installed package"
        raise typer.BadParameter(message, param_hint="--estimator")
    figures = figures_of(
        samples,
        scoring,
        resamples=resamples,
        engine=ray,
        out=out,
        partition_size=partition_size,
        estimators=estimator or (),
        proposer=proposer,
        tallied=tally,
    )
    show(figures, as_json=as_json)


def show(figures: dict[str, Any], *, as_json: bool) -> None:
    """Prints a report, as one JSON object or as a table."""
    if as_json:
        print_json(figures)
    else:
        from coe_agents.cli.display.scores import show_report

        show_report(figures)


def figures_of(
    samples: list[Path],
    options: ScoringOptions,
    *,
    resamples: int = 1000,
    engine: EngineOptions | None = None,
    out: Path | None = None,
    partition_size: int = 256,
    estimators: Sequence[str] = (),
    proposer: str | None = None,
    tallied: bool = False,
) -> dict[str, Any]:
    """Returns the report on samples; with a Ray engine the scores are stored in `out`, and a rerun resumes there.

    `estimators` are names of further scores, as "package.module:name", for this process only. `proposer` is the agent
    whose first response is judged. `tallied` says whether to keep tallies only.
    """
    from coe_agents.evaluation import report

    config = _load_config(options)
    setting = _create_setting(options, config, proposer=proposer)
    if engine is None or out is None:
        scores = _score_here(samples, setting, estimators, tallied=tallied)
    else:
        scores = _score_on(engine, samples, out, setting, options, config, partition_size, tallied=tallied)
    check_proposer(proposer, scores.agents)
    return report(scores, n_resamples=resamples)


def _score_here(
    samples: list[Path], setting: "ScoringSetup", estimators: Sequence[str], *, tallied: bool
) -> "Scores | TalliedScores":
    from coe_agents.cli.recalibrate import without_rulings
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.scoring import score as score_samples
    from coe_agents.evaluation.scoring import tally

    with rare_collections(ROWS), Samples(samples) as questions:
        collect: Callable[..., Scores | TalliedScores] = tally if tallied else score_samples
        return collect(
            without_rulings(questions, argument="samples"),
            clusterer=setting.clusterer,
            weighting=setting.weighting,
            criterion=setting.criterion,
            entailment=setting.entailment,
            estimators=_load_estimators(estimators),
            proposer=setting.proposer,
        )


def check_proposer(proposer: str | None, agents: Iterable[str]) -> None:
    """Refuses a proposer that is no agent of the samples."""
    names = sorted(agents)
    if proposer is not None and proposer not in names:
        from coe_agents.extensions import did_you_mean

        hint = did_you_mean(proposer, names) or f"The samples have {', '.join(names)}"
        raise typer.BadParameter(f'must be an agent of the samples; got "{proposer}". {hint}', param_hint="--proposer")


def create_setting(options: ScoringOptions) -> "ScoringSetup":
    """Returns the clusterer, the criterion, the weighting and, where the clusterer has one, the entailment model."""
    return _create_setting(options, _load_config(options))


def _load_config(options: ScoringOptions) -> "Config | None":
    if options.clusterer is not None and options.config is not None and options.correctness != "judge":
        raise typer.BadParameter("it cannot be combined with --config. Omit one of them", param_hint="--clusterer")
    return None if options.config is None else load_quietly(options.config)


def _create_setting(
    options: ScoringOptions,
    config: "Config | None",
    *,
    judged_at_once: int = _JUDGED_AT_ONCE,
    proposer: str | None = None,
) -> "ScoringSetup":
    """Creates the models for scoring; a judge of correctness judges `judged_at_once` answers at a time."""
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.evaluation import CRITERIA, SameMeaning, ScoringSetup

    clusterer = create_named_clusterer(options.clusterer)
    judge: Criterion | None = None
    if config is not None:
        from coe_agents.config.build import create_clusterer, create_judge

        clusterer = create_clusterer(config) if options.clusterer is None else clusterer
        judge = create_judge(config, at_once=judged_at_once) if options.correctness == "judge" else None
    model = clusterer.model if isinstance(clusterer, BidirectionalEntailment) else None
    same_meaning = None if model is None else SameMeaning(clusterer)
    with_models = {
        "entailment": (
            same_meaning,
            'an entailment model. Name one: --config FILE with [clusterer] kind = "entailment"',
        ),
        "judge": (judge, "a judge model. Name one: --config FILE with [judge]"),
    }
    criterion, needed = with_models.get(options.correctness) or (CRITERIA[options.correctness], "")
    if criterion is None:
        raise typer.BadParameter(f'"{options.correctness}" needs {needed}', param_hint="--correctness")
    return ScoringSetup(clusterer, criterion, model, options.weighting, proposer=proposer)


def create_named_clusterer(name: str | None) -> "Clusterer":
    """Returns the clusterer that needs no model, that of tool calls, tinyworld's, or one of the user's."""
    if name in (None, "normalized"):
        from coe_agents.clustering import NormalizedMatch

        return NormalizedMatch()
    if name == "actions":
        from coe_agents.actions import ActionMatch

        return ActionMatch()
    if name == "tinyworld":
        from coe_agents.tinyworld import tinyworld_clusterer

        return tinyworld_clusterer()
    from coe_agents.config.build import create_named
    from coe_agents.config.schema import describe_unknown
    from coe_agents.extensions import find_extension

    if find_extension("clusterer", name) is None:
        message = describe_unknown("clusterer", ("normalized", "actions", "tinyworld"), name)
        raise typer.BadParameter(message, param_hint="--clusterer")
    try:
        clusterer: Clusterer = create_named("clusterer", name, {}, folder=Path())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--clusterer") from error
    return clusterer


def _load_estimators(names: Sequence[str]) -> "dict[str, Estimator]":
    """Returns estimators by the last part of "package.module:name"; entry points are found without being named."""
    from coe_agents.extensions import find_extension, load_extension

    found: dict[str, Estimator] = {}
    for name in names:
        entry = find_extension("estimator", name) if ":" in name else None
        if entry is None:
            raise typer.BadParameter(
                f'must be "package.module:name"; got "{name}". All other estimators are computed anyway',
                param_hint="--estimator",
            )
        found[entry.attr] = load_extension(entry, folder=Path())
    return found


def _score_on(
    engine: EngineOptions,
    samples: list[Path],
    out: Path,
    setting: "ScoringSetup",
    options: ScoringOptions,
    config: "Config | None",
    partition_size: int,
    *,
    tallied: bool,
) -> "Scores | TalliedScores":
    import coe_agents
    from coe_agents.cli.display.progress import progress
    from coe_agents.cli.recalibrate import without_rulings
    from coe_agents.config.schema import JudgeClusterer
    from coe_agents.distributed import cluster
    from coe_agents.distributed import score as score_parts
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.scoring.scores import to_scores
    from coe_agents.evaluation.scoring.tallied import to_tallies

    with Samples(samples) as questions:
        next(without_rulings(questions, argument="samples"), None)  # harvest writes no other lines into its files
        settings = {
            "coe_agents": coe_agents.__version__,
            "sha256": sorted(_digest(path) for path in questions.paths),
            "correctness": options.correctness,
            "weighting": options.weighting,
            **({"proposer": setting.proposer} if setting.proposer else {}),
            **clustering_settings(options.clusterer, config),
        }
        name = "scored"
        with progress({name: (0, len(questions))}, what=("question", "questions")) as advance, cluster(engine.address):
            bounds = [_JUDGED_AT_ONCE] if options.correctness == "judge" else []
            if config and isinstance(config.clusterer, JudgeClusterer):
                bounds.append(config.clusterer.max_concurrency)
            n_parts = -(-len(questions) // partition_size)
            pool = create_pool(engine, n_parts=n_parts, bound=min(bounds, default=None))
            create = partial(
                _create_setting,
                options,
                share_limits(config, pool.n_actors),
                judged_at_once=_JUDGED_AT_ONCE // pool.n_actors,
                proposer=setting.proposer,
            )
            found: Scores | TalliedScores = score_parts(
                questions,
                create,
                out,
                settings,
                pool,
                weighting=options.weighting,
                size=partition_size,
                criterion=setting.criterion.name,
                clusterer=type(setting.clusterer).__name__,
                proposer=setting.proposer,
                on_question=lambda: advance(name, False),
                collect=to_tallies if tallied else to_scores,
            )
    return found


def clustering_settings(clusterer: str | None, config: "Config | None") -> dict[str, Any]:
    """Returns the part of the settings on which scores depend, without keys."""
    from coe_agents.redaction import redact_all, secrets_of

    if config is None:
        return {"clusterer": clusterer or "normalized"}
    sections = {"clusterer": config.clusterer} | ({"judge": config.judge} if config.judge else {})
    fields = {name: section.model_dump(mode="json", exclude={"base_url"}) for name, section in sections.items()}
    secrets = set[str]().union(*map(secrets_of, sections.values()))
    return {**redact_all(fields, secrets), **({"clusterer": clusterer} if clusterer else {})}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
