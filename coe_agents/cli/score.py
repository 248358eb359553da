"""Owns the command `score`: how well scores tell wrong answers from right ones."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents import _ring
from coe_agents.cli.inputs import as_options, create_setting, open_samples
from coe_agents.cli.options import (
    ClaimsOption,
    JsonOption,
    ProposerOption,
    ResamplesOption,
    SamplesArgument,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.terminal import counts_questions, create_console, print_json

if TYPE_CHECKING:
    from coe_agents.evaluation.scoring.scores import ScoringSetup
    from coe_agents.measurement.estimators import Estimator


_LARGE = 2**24
"""Bytes from which further processes save more time than they take to start."""


def show_scores(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
    proposer: ProposerOption = None,
    claims: ClaimsOption = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            help="A score of yours, as package.module:name, whose code is run. May be given several times."
        ),
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
    that call nothing. With --claims it is each claim of long answers, by the texts of the other agents.
    """
    if claims is not None:
        show_claim_scores = _ring.load("claims.command:show_claim_scores")
        show_claim_scores(samples, claims, scoring.config, n_resamples=resamples, as_json=as_json)
        return
    from coe_agents.experiments.scoring import score_with

    found, judging = create_setting(scoring, samples)
    setup = replace(found, estimators=_load_estimators(estimator or ()), proposer=proposer)
    n_processes = _n_processes(processes, setup, scoring, samples)
    with open_samples(samples, scoring) as questions, as_options():
        evaluation = score_with(
            questions,
            setup,
            judging,
            resamples=resamples,
            n_processes=n_processes,
            progress=counts_questions(),
        )
    if as_json:
        print_json(evaluation.figures)
    else:
        evaluation.show(create_console())


score = expand_options(show_scores)


def _n_processes(
    wanted: int | None, setup: "ScoringSetup", options: ScoringOptions, samples: list[Path]
) -> int:
    """Returns how many processes are used; a model is loaded once."""
    from coe_agents.actions import ActionMatch
    from coe_agents.clustering import MathematicsMatch, NormalizedMatch
    from coe_agents.clustering.embedding import EmbeddingSimilarity
    from coe_agents.evaluation.parallel import n_cores
    from coe_agents.evaluation.samples.reader import files_of
    from coe_agents.evaluation.scoring.correctness import CRITERIA

    in_one_process = None
    if options.config is not None:
        in_one_process = "what --config names"
    elif setup.entailment:
        in_one_process = "an entailment model"
    elif isinstance(setup.clusterer, EmbeddingSimilarity):
        in_one_process = "an embedding model"
    elif isinstance(setup.clusterer, MathematicsMatch):
        in_one_process = "--clusterer mathematics"
    elif setup.criterion not in CRITERIA.values():
        in_one_process = f'the criterion "{setup.criterion.name}"'
    if wanted is not None and wanted > 1 and in_one_process:
        message = f"more than one cannot be combined with {in_one_process}, which is in one"
        raise typer.BadParameter(f"{message}. Omit it", param_hint="--processes")
    if wanted is not None:
        return wanted
    needs_none = in_one_process is None and isinstance(
        setup.clusterer, NormalizedMatch | ActionMatch
    )
    n_bytes = sum(file.stat().st_size for file in files_of(samples) if file.exists())
    return n_cores() if needs_none and n_bytes >= _LARGE else 1


def _load_estimators(names: Sequence[str]) -> "dict[str, Estimator]":
    from coe_agents.extensions import is_reference
    from coe_agents.measurement.estimators import load_estimator

    found: dict[str, Estimator] = {}
    for name in names:
        if not is_reference(name):
            raise typer.BadParameter(
                f'must be "package.module:name"; got "{name}". All other estimators are computed anyway',
                param_hint="--estimator",
            )
        found[name.partition(":")[2]] = load_estimator(name, folder=Path())
    return found
