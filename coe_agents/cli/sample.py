"""Owns the commands `sample` and `evaluate`: every agent is asked many questions, and the responses are scored."""

import sys
from collections import Counter
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coe_agents import _ring
from coe_agents.cli.inputs import (
    as_options,
    create_setting,
    find_config,
    load_quietly,
    parse_columns,
    ray_options,
)
from coe_agents.cli.options import (
    Criteria,
    EngineOptions,
    Exit,
    JsonOption,
    QuestionOptions,
    SamplingOptions,
    ScoringOptions,
    expand_options,
)
from coe_agents.cli.score import show_scores
from coe_agents.cli.terminal import clean, print_lines, resumable
from coe_agents.text import quantity

if TYPE_CHECKING:
    from coe_agents.config.schema import Config
    from coe_agents.evaluation import Samples
    from coe_agents.experiments.running import Running
    from coe_agents.experiments.sampling import Sampling

SAMPLE_EPILOG = (
    "Exit status: 0 all agents answered, 1 a request failed or a response could not be stored, 2 a mistake in the "
    "command, 130 interrupted."
)


RecordedOption = Annotated[
    Literal[Criteria, "judge"] | None,
    typer.Option(
        metavar="NAME",
        help="When an answer is right, which a new run records for the commands that judge it: see `score`. With judge "
        "--config must have a [judge]. Default: reference_or_label; for the dataset tinyworld, judged by its own "
        "entailment model, entailment.",
    ),
]


@expand_options
def sample(
    sampling: SamplingOptions, engine: EngineOptions, correctness: RecordedOption = None
) -> None:
    """Ask every agent the questions of a dataset, and store each response as it arrives."""
    file = find_config(sampling.config)
    config = load_quietly(file)
    if correctness == "judge" or (correctness == "entailment" and file is not None):
        # a model that is missing is reported before anybody is asked
        create_setting(ScoringOptions(correctness=correctness, config=file), [sampling.out])
    sample_to(sampling, config, engine=ray_options(engine), correctness=correctness)


@expand_options
def evaluate(
    sampling: SamplingOptions,
    scoring: ScoringOptions,
    engine: EngineOptions,
    as_json: JsonOption = False,
) -> None:
    """Run `sample`, then `score`. A new run records --correctness; without it, the run is judged as it records."""
    if scoring.clusterer is not None and scoring.correctness != "judge":
        scoring = replace(scoring, config=None)  # it names who is asked, here
    if scoring.clusterer is not None:
        from coe_agents.config.sampling_group import check_clusterer_name  # slow to import

        with as_options():
            check_clusterer_name(scoring.clusterer)  # before anybody is asked
    is_named = scoring.clusterer is not None or scoring.config is not None
    if scoring.correctness == "judge" or (scoring.correctness == "entailment" and is_named):
        # a model that is missing is reported before anybody is asked
        create_setting(scoring, [sampling.out])
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        sample_to(
            sampling,
            load_quietly(find_config(sampling.config)),
            engine=ray_options(engine),
            scoring=scoring,
        )
    scoring = replace(scoring, columns=None, questions=None)  # the run has our fields
    show_scores([sampling.out], scoring, as_json=as_json)


def sample_to(
    options: SamplingOptions,
    config: "Config | None",
    *,
    engine: EngineOptions | None = None,
    correctness: str | None = None,
    scoring: ScoringOptions | None = None,
) -> None:
    """Runs the function `sample` as the options say, and prints where the responses are, and what failed.

    `config`, None for tinyworld, is what the options name. `scoring` says how the answers are judged; what the folder
    already records stays. Without it, questions need no references, and `correctness` must be what the folder records.
    """
    # slow to import: mistakes above are reported first
    from coe_agents.evaluation import Samples
    from coe_agents.evaluation.origin import origin_of
    from coe_agents.experiments.blocking import wait_for
    from coe_agents.experiments.evaluating import check_can_be_scored
    from coe_agents.experiments.sampling import prepare

    arguments = {**_arguments_of(options, config), "correctness": correctness}
    is_new = origin_of([options.out]).judging is None
    if is_new and scoring is not None and scoring.correctness is not None:
        arguments["clusterer"] = scoring.clusterer
        arguments["correctness"] = scoring.correctness
    with resumable():
        sampling = prepare(**arguments)
        if scoring is not None:
            check_can_be_scored(sampling)
        if engine is None:
            samples = wait_for(sampling)
        else:
            _sample_on_cluster(engine, sampling, options.out)
            samples = Samples(options.out)
    _show_samples(samples)


def _arguments_of(options: QuestionOptions, config: "Config | None") -> dict[str, Any]:
    """Returns the options as the functions `sample` and `run` take them; `config`, None for tinyworld, is read."""
    arguments = asdict(options)
    del arguments["config"]
    arguments["questions"] = arguments.pop("dataset")
    arguments["models"] = config or "tinyworld"
    arguments["columns"] = parse_columns(options.columns)
    return arguments


def _sample_on_cluster(engine: EngineOptions, sampling: "Sampling", out: Path) -> None:
    with sampling.open_store(out) as (store, on_unit):
        missing = Counter(agent for _, agent in store.pending_units())
        if not missing:
            store.finish()
            return
        from coe_agents.config.sampling_group import create_group

        _ring.load("distributed.command:sample_on_cluster")(
            engine,
            sampling.config,
            create_group,
            sampling.dataset.questions,
            store,
            missing=missing,
            on_unit=on_unit,
            seed=sampling.settings["seed"],
            **sampling.asking,
        )


def _show_samples(samples: "Samples") -> None:
    """Prints where the responses are, and what failed; then the command fails, too."""
    from coe_agents.evaluation.samples.store import is_failure

    n_failed = Counter[str]()
    first_errors: dict[str, str] = {}
    names = set[str]()
    for question in samples:
        names.update(row["agent"] for row in (*question.responses, *question.failures))
        for row in filter(is_failure, question.failures):
            n_failed[row["agent"]] += 1
            first_errors.setdefault(row["agent"], str(row["error"]))

    counts = f"{quantity(len(samples), 'question')}, {quantity(len(names), 'agent')}"
    print_lines(f"{counts}: {clean(str(samples.paths[0]))}")
    for name, n in sorted(n_failed.items()):
        print_lines(
            f"{clean(name)} failed {times(n)}; the first error: {clean(first_errors[name])}"
        )
    if n_failed:
        print_lines("Rerun the same command to repeat the failed requests.")
        raise typer.Exit(Exit.FAILED)


def times(n: int) -> str:
    """Returns how often something happened, in words."""
    return "once" if n == 1 else f"{n} times"


RUN_EPILOG = (
    "Exit status: 0 every question was decided, 1 a question failed or a decision could not be stored, 2 a mistake in "
    "the command, 130 interrupted."
)
CorrectnessOption = Annotated[
    Literal["reference", "contains", "f1", "entailment", "judge"] | None,
    typer.Option(
        metavar="NAME",
        help="When an answer is right: reference, it equals a reference answer; contains, one stands in "
        "it as whole words; f1, it shares words with one; entailment, the entailment model of [clusterer] finds "
        "it equivalent to one; judge, the [judge] finds it right. Default: as `sample` records it, "
        "reference_or_label, which is reference where no answer is labelled; for the dataset tinyworld, judged by its "
        "own entailment model, entailment.",
    ),
]


@expand_options
def run(
    engine: EngineOptions, asking: QuestionOptions, correctness: CorrectnessOption = None
) -> None:
    """Ask the group as configured, with rounds and escalation, and keep every decision.

    The graph gets each question as `ask` does: instructions belong into system_prompt of the configuration.
    """
    ray = ray_options(engine)
    config = load_quietly(find_config(asking.config))
    # slow to import: mistakes above are reported first
    from coe_agents.experiments import running
    from coe_agents.experiments.runs import Runs

    arguments = {**_arguments_of(asking, config), "correctness": correctness}
    with resumable():
        if ray is None:
            runs = running.run(**arguments)
        else:
            _run_on_cluster(ray, running.prepare(**arguments), asking.out)
            runs = Runs(asking.out)
    print_lines("\n".join(runs.in_words()))
    if runs.outcomes.errors:
        print_lines("Rerun the same command to repeat the failed questions.")
        raise typer.Exit(Exit.FAILED)


def _run_on_cluster(engine: EngineOptions, running: "Running", out: Path) -> None:
    from coe_agents.experiments.dataset_run import create_run_group

    with running.open_store(out) as (store, timings, on_row):
        if not store.n_pending:
            store.finish()
            return
        _ring.load("distributed.command:decide_on_cluster")(
            engine,
            running.config,
            create_run_group,
            running.dataset.questions,
            store,
            timings=timings,
            on_row=on_row,
            **running.creating,
        )
