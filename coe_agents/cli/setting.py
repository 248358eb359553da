"""Owns how saved responses are scored and judged: as their run recorded it, unless the options name another way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coe_agents.cli.ask import load_quietly
from coe_agents.cli.options import ScoringOptions
from coe_agents.cli.terminal import clean, print_lines

if TYPE_CHECKING:
    from coe_agents.clustering import Clusterer
    from coe_agents.evaluation import SampledQuestion, ScoringSetup
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.origin import Judging


def create_setting(options: ScoringOptions, samples: Iterable[Path]) -> "tuple[ScoringSetup, Judging]":
    """Returns how responses become scores and verdicts, and what the output says of it.

    What no option names is as the runs recorded it that wrote the samples; without a record, texts are compared after
    normalisation, with references or labels.
    """
    if options.clusterer is not None and options.config is not None and options.correctness != "judge":
        raise typer.BadParameter("it cannot be combined with --config. Omit one of them", param_hint="--clusterer")
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.evaluation import ScoringSetup
    from coe_agents.evaluation.origin import Judging, recorded_judging
    from coe_agents.evaluation.scoring.correctness import create_criterion

    config = None if options.config is None else load_quietly(options.config)
    needs_record = options.correctness is None or (options.clusterer is None and config is None)
    recorded = recorded_judging(samples, must_agree=needs_record)
    usual, judge = recorded or Judging(), None
    if config is not None:
        from coe_agents.config.build import create_clusterer, create_judge
        from coe_agents.config.judging import describe

        judge = create_judge(config) if options.correctness == "judge" else None
    name: str | Mapping[str, Any]
    if options.clusterer is not None:
        name, clusterer = options.clusterer, _create(options.clusterer)
    elif config is not None:
        name, clusterer = describe(config), create_clusterer(config)
    else:
        name, clusterer = usual.clusterer, _create(usual.clusterer, is_recorded=True)
    used, judges = Judging(name, options.correctness or usual.correctness), clusterer
    if options.correctness is None and used.correctness == "entailment" and name != usual.clusterer:
        judges = _create(usual.clusterer, is_recorded=True)  # the run's own verdict, whatever clusters its responses
    try:
        criterion = create_criterion(used.correctness, judges, judge)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--correctness") from error
    model = clusterer.model if isinstance(clusterer, BidirectionalEntailment) else None
    setup = ScoringSetup(clusterer, criterion, model, options.weighting)
    return setup, used if recorded in (None, used) else replace(used, recorded=recorded)


def judge_saved(
    samples: list[Path],
    setting: "ScoringSetup",
    check: "Callable[[Iterable[SampledQuestion]], Iterable[SampledQuestion]]",
    **options: Any,
) -> "tuple[list[Judged], int]":
    """Returns the questions that have a response to judge, with measurement and verdict, and how many have none.

    `check` is called with the questions, and returns them; `options` are further ones of `judge_samples`.
    """
    from coe_agents.evaluation import Samples, judge_samples

    own: dict[str, Any] = {name: getattr(setting, name) for name in ("clusterer", "weighting", "criterion")}
    with Samples(samples) as questions:
        rows = judge_samples(check(questions), **own, **options)
        return rows, len(questions) - len(rows)


def print_judged(judging: "Judging") -> None:
    """Prints a line where answers are judged otherwise than their run recorded."""
    note = judging.note()
    if note is not None:
        print_lines(clean(note))


def _create(name: str | Mapping[str, Any], *, is_recorded: bool = False) -> "Clusterer":
    from coe_agents.actions import ActionMatch
    from coe_agents.clustering import NormalizedMatch

    if name in ("normalized", "actions"):
        return NormalizedMatch() if name == "normalized" else ActionMatch()
    from coe_agents.config.judging import create_named_clusterer, create_recorded_clusterer  # slow to import

    if is_recorded or not isinstance(name, str):
        return create_recorded_clusterer(name)
    try:
        return create_named_clusterer(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--clusterer") from error
