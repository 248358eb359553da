"""Owns the one way from options to objects: configuration, clusterer, criterion and questions.

A command reads its arguments, calls these functions and the package, and shows the result.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coe_agents.cli.options import EngineOptions, JudgingOptions, ModelOptions, ScoringOptions
from coe_agents.cli.terminal import clean, clean_up_after_interrupt, hide, print_lines
from coe_agents.errors import ConfigurationError

if TYPE_CHECKING:
    from coe_agents.clustering import Clusterer
    from coe_agents.config.schema import Config
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.origin import ResolvedJudging
    from coe_agents.evaluation.scoring.scores import ScoringSetup
    from coe_agents.policy import CalibratedPolicy
    from coe_agents.types import SampledQuestion

_TINYWORLD_NEEDS = ("safetensors", "tokenizers", "torch", "transformers")  # the extra "local"


def find_config(path: Path | None) -> Path | None:
    """Returns the file of the group: that of --config, of COE_CONFIG, or `coe.toml` of this folder; None for tinyworld.

    A file that is found is named on standard error, and checked: see `coe_agents.config.found`.
    """
    if path is not None:
        return path
    if named := os.environ.get("COE_CONFIG"):
        return Path(named)
    if not Path("coe.toml").is_file():
        return None
    from coe_agents.config.found import FOUND, load_found

    hide(load_found().secrets)
    print_lines(
        f"The group of {FOUND}, which is in this folder. Others: --model or --config FILE.",
        to_stderr=True,
    )
    return FOUND


def load_named(path: Path | None, named: ModelOptions) -> "Config | None":
    """Returns the configuration of a file, of the models that options name, or of the file that is found."""
    if not named.models:
        for option, value in named.only_with_models.items():
            if value is not None:
                raise typer.BadParameter(
                    "it needs --model. A file has fields for it",
                    param_hint=f"--{option.replace('_', '-')}",
                )
        return load_quietly(find_config(path))
    if path is not None:
        raise typer.BadParameter(
            "it cannot be combined with --config. Omit one of them", param_hint="--model"
        )
    from coe_agents.config.schema import read_config

    config = read_config(models_to_toml_of(named), Path("what --model stands for"))
    hide(config.secrets)
    return config


def load_quietly(path: Path | None) -> "Config | None":
    """Returns the configuration of a file, None for tinyworld, whose models it first tells how many threads to use."""
    if path is None:
        missing = [name for name in _TINYWORLD_NEEDS if find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"the default group is tinyworld, whose models need {', '.join(missing)} (not installed)",
                hint='Run pip install "coe-agents[local]", or name another group with --config FILE; '
                '"coe-agents config init" writes an example',
            )
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # tinyworld's matrices are too small to share
        return None
    from coe_agents.config.schema import load_config

    config = load_config(path)
    hide(config.secrets)  # in all that is printed from now on
    return config


def models_to_toml_of(named: ModelOptions) -> str:
    """Returns the file that options stand for."""
    from coe_agents.config.models import EXAMPLES, models_to_toml

    return models_to_toml(
        named.models or EXAMPLES,
        n_samples=named.n,
        answers=named.answers or "short",
        max_tokens=named.max_tokens,
        temperature=named.temperature,
        system=named.system,
    )


def create_setting(
    options: ScoringOptions,
    samples: Iterable[Path],
    config: "Config | None" = None,
    *,
    calibrated: str | None = None,
) -> "tuple[ScoringSetup, ResolvedJudging]":
    """Returns how responses become scores and verdicts, and what the output says of it.

    What no option names is as the runs recorded it that wrote the samples; without a record, texts are compared after
    normalisation, with references or labels.

    `config` is that of the options, if it is read already. `calibrated` is the criterion by which a policy was
    calibrated, which counts before a record.
    """
    uses_judge = options.correctness == "judge"
    if options.clusterer is not None and options.config is not None and not uses_judge:
        raise typer.BadParameter(
            "it cannot be combined with --config. Omit one of them", param_hint="--clusterer"
        )
    from coe_agents.clustering import BidirectionalEntailment
    from coe_agents.evaluation.origin import RECORD, resolve_judging
    from coe_agents.evaluation.scoring.correctness import create_criterion
    from coe_agents.evaluation.scoring.scores import ScoringSetup

    if config is None and options.config is not None:
        config = load_quietly(options.config)
    named: dict[str, dict[str, Any]] = {
        "--clusterer": {"clusterer": options.clusterer},
        "--correctness": {"correctness": options.correctness},
        "the policy": {"correctness": calibrated},
    }
    if config is not None:
        from coe_agents.config.sampling_group import judging_parts

        named["--config"] = judging_parts(config)
    judging = resolve_judging(samples, named)
    used, recorded = judging.used, judging.recorded

    clusterer = _create_clusterer(used.clusterer, judging.sources["clusterer"], config)
    of_criterion, judge = clusterer, None
    if used.correctness == "judge" and config is not None:
        from coe_agents.config.build import create_judge

        judge = create_judge(config)
    is_own_verdict = judging.sources["correctness"] == RECORD and used.correctness == "entailment"
    if recorded and is_own_verdict and used.clusterer != recorded.clusterer:
        # the run's own model says what is right, whatever clusters its responses
        of_criterion = _create_clusterer(recorded.clusterer, RECORD, None)
    try:
        criterion = create_criterion(used.correctness, of_criterion, judge)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--correctness") from error
    model = clusterer.model if isinstance(clusterer, BidirectionalEntailment) else None
    return ScoringSetup(clusterer, criterion, model, options.weighting), judging


def _create_clusterer(
    name: str | Mapping[str, Any], source: str, config: "Config | None"
) -> "Clusterer":
    """Returns the clusterer that a source of a `ResolvedJudging` names."""
    from coe_agents.actions import ActionMatch
    from coe_agents.clustering import NormalizedMatch

    if source == "--config" and config is not None:
        from coe_agents.config.build import create_clusterer

        return create_clusterer(config)
    if name == "normalized":
        return NormalizedMatch()
    if name == "actions":
        return ActionMatch()
    from coe_agents.config.sampling_group import create_named_clusterer, create_recorded_clusterer

    if source != "--clusterer":
        return create_recorded_clusterer(name)
    try:
        return create_named_clusterer(str(name))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--clusterer") from error


def parse_columns(columns: str | None) -> dict[str, str]:
    """Returns what the files call our fields, of "ours=theirs,..."."""
    names = {}
    for pair in (columns or "").split(","):
        ours, _, theirs = pair.partition("=")
        if ours.strip() and theirs.strip():
            names[ours.strip()] = theirs.strip()
        elif columns is not None:
            raise typer.BadParameter(
                f'must be ours=theirs,...; got "{pair}". Name both, such as text=response',
                param_hint="--columns",
            )
    return names


def open_samples(paths: Sequence[Path], options: JudgingOptions) -> "Samples":
    """Opens files of samples as the options say that they are to be read."""
    from coe_agents.evaluation import Samples

    return Samples(paths, columns=parse_columns(options.columns), questions=options.questions)


def judge_saved(
    samples: list[Path],
    setting: "ScoringSetup",
    scoring: JudgingOptions,
    *,
    check: "Callable[[Iterable[SampledQuestion]], Iterable[SampledQuestion]] | None" = None,
    **options: Any,
) -> "tuple[list[Judged], int]":
    """Returns the questions that have a response to judge, with measurement and verdict, and how many have none.

    `check` is called with the questions, and returns them; by default it refuses rulings. `options` are further ones
    of `judge_samples`.
    """
    from coe_agents.evaluation import judge_samples
    from coe_agents.evaluation.samples.reader import without_rulings

    with open_samples(samples, scoring) as questions:
        rows = judge_samples(
            (check or without_rulings)(questions),
            clusterer=setting.clusterer,
            weighting=setting.weighting,
            criterion=setting.criterion,
            **options,
        )
        return rows, len(questions) - len(rows)


def load_policy(path: Path, estimator: str | None) -> "CalibratedPolicy":
    """Returns a saved policy; the `estimator` of a score of the user's own is an option, since no file names code."""
    from coe_agents.measurement.estimators import find_score
    from coe_agents.policy import CalibratedPolicy

    try:
        computes = None if estimator is None else find_score(estimator, folder=Path())
    except ValueError as error:
        raise typer.BadParameter(clean(str(error)), param_hint="--estimator") from error
    return CalibratedPolicy.load(path, estimator=computes)


def check_proposer(proposer: str | None, agents: Iterable[str]) -> None:
    """Refuses a proposer that is no agent of the samples."""
    names = sorted(agents)
    if proposer is not None and proposer not in names:
        from coe_agents.extensions import did_you_mean

        hint = did_you_mean(proposer, names) or f"The samples have {', '.join(names)}"
        raise typer.BadParameter(
            f'must be an agent of the samples; got "{proposer}". {hint}', param_hint="--proposer"
        )


def names_of(paths: Sequence[Path], *, of: str = "folder", option: str = "PATHS") -> list[str]:
    """Returns the last part of each path, or as many as tell them apart."""
    resolved = [Path(os.path.abspath(path)) for path in paths]
    if len(set(resolved)) < len(resolved):
        raise typer.BadParameter(
            f"each {of} must be given once. Remove the repetition", param_hint=option
        )
    n_parts = 1
    while True:
        names = ["/".join(path.parts[-n_parts:]) for path in resolved]
        if len(set(names)) == len(names):
            return names
        n_parts += 1


def ray_options(options: EngineOptions) -> EngineOptions | None:
    """Returns the options of the Ray engine, None for this process."""
    if options.engine == "ray":
        clean_up_after_interrupt()
        return options
    for name in ("address", "actors", "gpus_per_actor", "part_timeout", "partition_size"):
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                "it requires --engine ray. Add --engine ray, or omit it", param_hint=option
            )
    return None
