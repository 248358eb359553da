"""Owns the one way from options to objects: configuration, clusterer, criterion and questions.

A command reads its arguments, calls these functions and the package, and shows the result.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coe_agents.cli.options import EngineOptions, JudgingOptions, ModelOptions, ScoringOptions
from coe_agents.cli.terminal import clean, clean_up_after_interrupt, hide, print_lines, show_work
from coe_agents.errors import CoEError, ConfigurationError

if TYPE_CHECKING:
    from coe_agents.config.schema import Config
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.calibration.calibrate import Judged
    from coe_agents.evaluation.origin import ResolvedJudging
    from coe_agents.evaluation.scoring.scores import ScoringSetup
    from coe_agents.policy import CalibratedPolicy

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
    from coe_agents.checks import on_repeated
    from coe_agents.config.schema import read_config

    print_lines(on_repeated(named.models), to_stderr=True)
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
        answers=named.answers,
        max_tokens=named.max_tokens,
        temperature=named.temperature,
        system=named.system,
    )


def create_setting(
    options: ScoringOptions, samples: Iterable[Path], *, calibrated: str | None = None
) -> "tuple[ScoringSetup, ResolvedJudging]":
    """Returns how responses become scores and verdicts, and what the output says of it.

    What no option names is as the runs recorded it that wrote the samples; without a record, texts are compared after
    normalisation, with references or labels.

    `calibrated` is the criterion by which a policy was calibrated, which counts before a record.
    """
    from coe_agents.experiments.judging import JudgingArguments, create_setup

    arguments = JudgingArguments(**judging_arguments(options), calibrated=calibrated)
    with as_options(), show_work("preparing the comparison of answers"):
        return create_setup(samples, arguments)


def judging_arguments(options: JudgingOptions) -> dict[str, Any]:
    """Returns what options say of how answers are compared and judged, by the names of `JudgingArguments`."""
    file = getattr(options, "config", None)
    uses_judge = options.correctness == "judge"
    if options.clusterer is not None and file is not None and not uses_judge:
        raise typer.BadParameter(
            "it cannot be combined with --config. Omit one of them", param_hint="--clusterer"
        )
    config = None if file is None else load_quietly(file)
    return {
        "clusterer": options.clusterer,
        "correctness": options.correctness,
        "weighting": getattr(options, "weighting", "auto"),
        "config": config,
    }


@contextmanager
def as_options() -> Iterator[None]:
    """Turns a ValueError about an argument of a function into one about the option of its name."""
    try:
        yield
    except CoEError:  # it says where
        raise
    except ValueError as error:
        field = getattr(error, "field", None)
        if field is None:
            raise
        hint = "'samples'" if field == "samples" else f"--{field.replace('_', '-')}"
        raise typer.BadParameter(clean(str(error)), param_hint=hint) from error


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
    from coe_agents.evaluation.kept import path_of_kept

    if options.fresh and (kept := path_of_kept(paths)):
        kept.unlink(missing_ok=True)
    with show_work("reading the samples"):
        return Samples(paths, columns=parse_columns(options.columns), questions=options.questions)


def judge_saved(
    samples: list[Path], setting: "ScoringSetup", scoring: JudgingOptions, **options: Any
) -> "tuple[list[Judged], int]":
    """Opens the samples, and judges them; `options` are those of `coe_agents.experiments.judging.judge_saved`."""
    from coe_agents.experiments.judging import judge_saved as judge_questions

    with open_samples(samples, scoring) as questions:
        return judge_questions(questions, setting, **options)


def load_policy(path: Path, estimator: str | None) -> "CalibratedPolicy":
    """Returns a saved policy; the `estimator` of a score of the user's own is an option, since no file names code."""
    from coe_agents.measurement.estimators import find_score
    from coe_agents.policy import CalibratedPolicy

    try:
        computes = None if estimator is None else find_score(estimator, folder=Path())
    except ValueError as error:
        raise typer.BadParameter(clean(str(error)), param_hint="--estimator") from error
    return CalibratedPolicy.load(path, estimator=computes)


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
