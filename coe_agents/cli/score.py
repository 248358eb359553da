"""Owns the command `score`: how well each uncertainty score separates wrong answers from right ones."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.options import (
    JsonOption,
    ProposerOption,
    ResamplesOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import print_json

if TYPE_CHECKING:
    from coe_agents.clustering import Clusterer
    from coe_agents.evaluation import Criterion, ScoringSetup
    from coe_agents.evaluation.scoring.estimators import Estimator


_LARGE = 2**24
"""Bytes from which further processes save more time than they take to start."""


@expand_options
def score(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
    proposer: ProposerOption = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="A score of yours, as package.module:name, whose code is run. May be given several times."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that share the questions; figures do not depend on it. Default: one for each core if there "
            "are files of 16 MB and more, and no model is needed; else 1.",
        ),
    ] = None,
) -> None:
    """Show how well each uncertainty score separates wrong answers from right ones, on saved responses.

    The measures are AUROC, AURAC and the accuracy on the most certain questions, with 95 % intervals. With --proposer,
    what may be wrong is the first response of one agent. Proposals of tool calls are also reported apart from those
    that call nothing.
    """
    figures = figures_of(
        samples,
        scoring,
        resamples=resamples,
        estimators=estimator or (),
        proposer=proposer,
        n_processes=processes,
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
    estimators: Sequence[str] = (),
    proposer: str | None = None,
    n_processes: int | None = None,
) -> dict[str, Any]:
    """Returns the report on samples.

    `estimators` are names of further scores, as "package.module:name". `proposer` is the agent whose first response is
    judged. `n_processes` is as `--processes`.
    """
    from coe_agents.cli.recalibrate import without_rulings
    from coe_agents.evaluation import Samples, report
    from coe_agents.evaluation.scoring import score_samples
    from coe_agents.evaluation.workers import start_workers

    setup = replace(create_setting(options), estimators=_load_estimators(estimators), proposer=proposer)
    check = partial(without_rulings, argument="samples")
    with (
        start_workers(_n_processes(n_processes, options, samples)) as workers,
        Samples(samples, workers=workers) as questions,
    ):
        scores = score_samples(questions, setup, check=check, workers=workers)
        check_proposer(proposer, scores.agents)
        return report(scores, n_resamples=resamples, workers=workers)


def _n_processes(wanted: int | None, options: ScoringOptions, samples: list[Path]) -> int:
    """Returns how many processes are used; a model is loaded once."""
    from coe_agents.evaluation.samples.reader import files_of
    from coe_agents.evaluation.workers import n_cores

    if wanted is not None and wanted > 1 and (options.config is not None or options.clusterer == "tinyworld"):
        message = "more than one cannot be combined with --config or the clusterer of tinyworld, whose model is in one"
        raise typer.BadParameter(f"{message}. Omit it", param_hint="--processes")
    if wanted is not None:
        return wanted
    needs_none = options.config is None and options.clusterer in (None, "normalized", "actions")
    n_bytes = sum(file.stat().st_size for file in files_of(samples) if file.exists())
    return n_cores() if needs_none and n_bytes >= _LARGE else 1


def check_proposer(proposer: str | None, agents: Iterable[str]) -> None:
    """Refuses a proposer that is no agent of the samples."""
    names = sorted(agents)
    if proposer is not None and proposer not in names:
        from coe_agents.extensions import did_you_mean

        hint = did_you_mean(proposer, names) or f"The samples have {', '.join(names)}"
        raise typer.BadParameter(f'must be an agent of the samples; got "{proposer}". {hint}', param_hint="--proposer")


def create_setting(options: ScoringOptions) -> "ScoringSetup":
    """Returns the clusterer, the criterion, the weighting and, where the clusterer has one, the entailment model."""
    if options.clusterer is not None and options.config is not None and options.correctness != "judge":
        raise typer.BadParameter("it cannot be combined with --config. Omit one of them", param_hint="--clusterer")
    config = None if options.config is None else load_quietly(options.config)
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.evaluation import CRITERIA, SameMeaning, ScoringSetup

    clusterer = create_named_clusterer(options.clusterer)
    judge: Criterion | None = None
    if config is not None:
        from coe_agents.config.build import create_clusterer, create_judge

        clusterer = create_clusterer(config) if options.clusterer is None else clusterer
        judge = create_judge(config) if options.correctness == "judge" else None
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
    return ScoringSetup(clusterer, criterion, model, options.weighting)


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
