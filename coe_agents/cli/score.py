"""Owns the command `score`: how well each uncertainty score separates wrong answers from right ones."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coe_agents.cli.inputs import check_proposer, create_setting, without_rulings
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
    from coe_agents.evaluation.scoring.estimators import Estimator


def show_scores(
    samples: SamplesArgument,
    scoring: ScoringOptions,
    resamples: ResamplesOption = 1000,
    as_json: JsonOption = False,
    proposer: ProposerOption = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="A score of yours, as package.module:name, whose code is run. May be given several times."),
    ] = None,
) -> None:
    """Show how well each uncertainty score separates wrong answers from right ones, on saved responses.

    The measures are AUROC, AURAC and the accuracy on the most certain questions, with 95 % intervals. With --proposer,
    what may be wrong is the first response of one agent. Proposals of tool calls are also reported apart from those
    that call nothing.
    """
    from coe_agents.evaluation import Samples, report
    from coe_agents.evaluation.scoring.scored_question import score_each
    from coe_agents.evaluation.scoring.scores import to_scores

    found, judging = create_setting(scoring, samples)
    setup = replace(found, estimators=_load_estimators(estimator or ()), proposer=proposer)
    with Samples(samples) as questions:
        scores = to_scores(score_each(without_rulings(questions, argument="samples"), setup), setup)
    check_proposer(proposer, scores.agents)
    figures = {**report(scores, n_resamples=resamples), "judged": judging.to_json()}
    if as_json:
        print_json(figures)
    else:
        from coe_agents.cli.display.tables import show_report

        show_report(figures, judging.note())


score = expand_options(show_scores)


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
