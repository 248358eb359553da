"""Owns what commands share: exit codes, options, and groups of options that are declared once and passed whole."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from coe_agents.cli.terminal import PRINTS_JSON


class Exit(IntEnum):
    """The meaning of the exit status."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2  # typer's own
    ABSTAINED = 3
    ESCALATED = 4


Criteria = Literal[
    "reference_or_label",
    "reference_or_any_label",
    "reference",
    "label",
    "contains",
    "f1",
    "entailment",
]
"""The names of `--correctness` where no judge can be configured."""
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="TOML file with agents, clusterer and policy; default: COE_CONFIG, else coe.toml of this folder, "
        "which may not name code, else tinyworld, three small models that are shipped.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
LimitOption = Annotated[
    int, typer.Option(min=0, help="Number of questions, chosen by --seed; 0 for all.")
]
SeedOption = Annotated[
    int,
    typer.Option(
        help="Random seed for questions and examples, and for agents that have no seed of their own."
    ),
]


ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="OURS=THEIRS,...",
        help="What the files call our fields, such as text=response,id=qid; see docs/your_own_files.md.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options that name models in place of a file, and how they are asked."""

    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help='A model, such as "openai:gpt-5-mini" or "transformers:FOLDER"; repeatable.',
        ),
    ] = None
    n: Annotated[int, typer.Option("--n", min=1, help="How many responses each --model gives.")] = 5
    answers: Annotated[
        Literal["short", "mathematics", "sentences"] | None,
        typer.Option(
            metavar="KIND",
            help="How answers of --model are compared: short, mathematics, by its value, or sentences, which the first "
            "model compares that is not of tinyworld. Default: short; where all are of it, sentences, by its model.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The most tokens of a response of --model; default: 64 for short answers of a model in this process, "
            "else the model's own. What a model thinks counts.",
        ),
    ] = None
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Temperature of --model; default: 1.")
    ] = None
    system: Annotated[
        str | None, typer.Option(help="What --model is told before the question.")
    ] = None

    @property
    def only_with_models(self) -> dict[str, object]:
        """Those that say nothing without --model."""
        names = ("answers", "max_tokens", "temperature", "system")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """The options of `sample` and `run`: which questions are asked of whom, and where what they give is kept."""

    dataset: Annotated[
        str,
        typer.Option(
            help="triviaqa, squad, squad_v2, nq_open or truthfulqa, from the Hugging Face hub; tinyworld; a file, "
            "such as one of their official ones, JSON Lines, a JSON array, CSV or Parquet; or the folder of a dataset."
        ),
    ]
    out: Annotated[Path, typer.Option(help="Folder of the run. Rerun the same command to resume.")]
    split: Annotated[
        str | None, typer.Option(help="Split of the dataset; default: validation.")
    ] = None
    columns: ColumnsOption = None
    limit: LimitOption = 200
    seed: SeedOption = 0
    config: ConfigOption = None
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Concurrent questions to each agent; default: 8, and 1 for a model in this process. "
            "Batches of a local model are faster, but change the last digits of its log-probabilities.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions(QuestionOptions):
    """The options of `sample`: those of the questions, and how they are put."""

    with_context: Annotated[
        bool, typer.Option("--with-context", help="Show the passage with each question.")
    ] = False
    p_false: Annotated[
        bool,
        typer.Option(
            "--p-false",
            help="Ask each agent about its own answers: the probability that each is false.",
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions:
    """The options of a replay of policies: how files are read, how responses become clusters, and what is right."""

    columns: ColumnsOption = None
    questions: Annotated[
        Path | None,
        typer.Option(
            help="A file of questions, for responses that hold none, such as batch output: its id is their custom_id."
        ),
    ] = None

    clusterer: Annotated[
        str | None,
        typer.Option(
            "--clusterer",
            help="Default: what the run recorded, else normalized, which needs no model. mathematics compares values; "
            "actions tool calls; tinyworld is for its models; or one of yours: package.module:Name, whose code is run.",
        ),
    ] = None
    correctness: Annotated[
        Literal[Criteria, "judge"] | None,
        typer.Option(
            metavar="NAME",
            help="When an answer is right; default: what the run recorded, else reference_or_label. reference: it "
            "equals a reference answer; label: the samples label it right; reference_or_label: either; "
            "reference_or_any_label: either, and one label of equal answers is enough; contains: a reference stands in "
            "it as whole words; f1: it shares words with a reference; entailment: the entailment model finds it "
            "equivalent to a reference; judge: the [judge] of --config finds it right.",
        ),
    ] = None
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Delete what the folder of the run keeps of models, and ask them again."
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(JudgingOptions):
    """The options of `score`, `report`, `calibrate` and `drift`: those of judging, and how responses count."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="TOML file whose [clusterer] decides which responses mean the same.",
        ),
    ] = None
    weighting: Annotated[
        Literal["auto", "frequency", "probability"],
        typer.Option(
            metavar="NAME",
            help="How responses count: frequency, probability, or auto: by probability if an agent gives it for all of "
            "its responses.",
        ),
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Where a command runs: in this process or on a Ray cluster."""

    engine: Annotated[
        Literal["local", "ray"],
        typer.Option("--engine", help="local: this process; ray: a Ray cluster (coe-agents[ray])."),
    ] = "local"
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster; default: RAY_ADDRESS, else a cluster on this machine."
        ),
    ] = None
    actors: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on the Ray cluster; default: one for each machine."),
    ] = None
    gpus_per_actor: Annotated[
        float, typer.Option(min=0, help="GPUs of each actor; 0.5 lets two share one.")
    ] = 0.0
    part_timeout: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds after which another actor tries a part; default: 3600."),
    ] = None
    partition_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Questions in a part, which an actor takes; default: 100, of `run` 10."
        ),
    ] = None


ProposerOption = Annotated[
    str | None,
    typer.Option(
        "--proposer",
        help="Judge the first response of this agent, by the support of the others, not the group's.",
    ),
]
PolicyEstimatorOption = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        help="What computes the policy's score where that is one of yours: package.module:name, whose code is run. The "
        "file of a policy names no code.",
    ),
]
ClaimsOption = Annotated[
    Literal["overlap", "entailment"] | None,
    typer.Option(
        "--claims",
        help="The samples are files of labelled claims (*.claims.jsonl). Who supports a claim: overlap compares words "
        "and needs no model; entailment asks the entailment model of --config.",
    ),
]
_SAMPLES_HELP = (
    "Files of saved responses (JSON Lines, JSON, CSV or Parquet, perhaps .gz, or of another tool), patterns, or the "
    "folder of a run."
)
SamplesArgument = Annotated[list[Path], typer.Argument(help=_SAMPLES_HELP)]
OptionalSamplesArgument = Annotated[list[Path] | None, typer.Argument(help=_SAMPLES_HELP)]
ResamplesOption = Annotated[
    int, typer.Option(min=1, help="Bootstrap resamples behind each interval.")
]


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command with the fields of its options classes as parameters, as Typer reads them.

    A parameter annotated with one of the dataclasses above becomes the dataclass's fields. A field that two of them
    share is one option: the first declares it, and both receive its value.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    expanded: dict[str, inspect.Parameter] = {}
    own: list[str] = []
    for name, parameter in inspect.signature(command).parameters.items():
        declared = [parameter]
        hints_of_declared = hints
        if name in groups:
            declared = list(inspect.signature(groups[name]).parameters.values())
            hints_of_declared = get_type_hints(groups[name], include_extras=True)
        else:
            own.append(name)
        for each in declared:
            hint = hints_of_declared[each.name]
            option = each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)
            expanded.setdefault(each.name, option)

    @wraps(command)
    def run(**options: Any) -> None:
        arguments = {name: options[name] for name in own}
        for name, group in groups.items():
            arguments[name] = group(**{each.name: options[each.name] for each in fields(group)})
        PRINTS_JSON.set(options.get("as_json", False))
        command(**arguments)

    run.__annotations__ = {name: parameter.annotation for name, parameter in expanded.items()}
    run.__signature__ = inspect.Signature(list(expanded.values()))  # type: ignore[attr-defined]
    return run
