"""Owns the commands `sample` and `evaluate`: every agent is asked many questions, and the responses are scored."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coe_agents import _ring
from coe_agents.cli.inputs import (
    create_setting,
    find_config,
    load_quietly,
    parse_columns,
    ray_options,
)
from coe_agents.cli.options import (
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
    from coe_agents.evaluation.datasets.sources import QuestionsOnDisk
    from coe_agents.evaluation.origin import Judging
    from coe_agents.evaluation.sample_collection import SampledGroup
    from coe_agents.evaluation.samples.store import Store, Unit

SAMPLE_EPILOG = (
    "Exit status: 0 all agents answered, 1 a request failed or a response could not be stored, 2 a mistake in the "
    "command, 130 interrupted."
)


@expand_options
def sample(sampling: SamplingOptions, engine: EngineOptions) -> None:
    """Ask every agent the questions of a dataset, and store each response as it arrives."""
    sample_to(
        sampling,
        load_quietly(find_config(sampling.config)),
        engine=ray_options(engine),
        scoring=ScoringOptions(),
    )


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
    scoring: ScoringOptions | None = None,
) -> None:
    """Asks the agents of a configuration the questions of a set, and stores the responses in the folder `options.out`.

    `config`, None for tinyworld, is what the options name. `scoring` says how the answers are judged; what the folder
    already records stays, since no response depends on it.
    """
    import asyncio

    from coe_agents.tinyworld.questions import find_questions

    columns = parse_columns(options.columns)
    dataset = find_questions(options.dataset, options.split, seed=options.seed, columns=columns)
    questions = dataset.questions.first(options.limit or None)
    if options.with_context:
        for question in questions:
            question.prompt(
                with_context=True
            )  # raises where there is no passage, before a run begins
    # slow to import: mistakes above are reported first
    from coe_agents.config.sampling_group import create_group
    from coe_agents.evaluation.origin import JUDGED
    from coe_agents.evaluation.sample_collection import Units
    from coe_agents.evaluation.sample_collection import sample as sample_all
    from coe_agents.evaluation.samples.store import Store

    asking: dict[str, Any] = {
        "seed": options.seed,
        "at_once": options.at_once,
        "p_false": options.p_false,
        "passages": options.with_context,
    }
    group = create_group(config, **asking)
    settings = {
        "dataset": describe_dataset(dataset, map(asdict, questions), options.limit),
        "seed": options.seed,
        JUDGED: _judging_to_record(options, config, scoring).to_json(),
        "prompt": {"passages": options.with_context},
        **group.settings,
    }
    n_samples = {agent.name: agent.n_samples for agent in group.participants}
    units = Units(questions, n_samples, seed=options.seed)
    with Store(options.out, settings, units) as store:
        missing = Counter(agent for name, agent in units if not store.is_kept((name, agent)))
        with _progress_and_summary(group, len(questions), store, missing) as on_unit:
            if engine is None:
                asyncio.run(sample_all(questions, group, store, on_unit=on_unit))
            elif not missing:
                store.finish()
            else:
                sample_on_cluster = _ring.load("distributed.command:sample_on_cluster")
                kept = {"missing": missing, "on_unit": on_unit}
                sample_on_cluster(engine, config, create_group, questions, store, **kept, **asking)


def _judging_to_record(
    options: SamplingOptions, config: "Config | None", scoring: ScoringOptions | None
) -> "Judging":
    """Returns how the folder says that answers are judged, else how `evaluate` is told to, else the usual way."""
    from coe_agents.config.sampling_group import judging_of
    from coe_agents.evaluation.origin import origin_of

    recorded = origin_of([options.out]).judging
    if recorded is not None:
        return recorded
    is_tinyworld = options.dataset == "tinyworld"
    if scoring is None or scoring.correctness is None:
        return judging_of(config, is_tinyworld=is_tinyworld)
    judging = judging_of(config, is_tinyworld=is_tinyworld, correctness=scoring.correctness)
    return replace(judging, clusterer=scoring.clusterer or judging.clusterer)


@contextmanager
def _progress_and_summary(
    group: "SampledGroup", n_questions: int, store: "Store", missing: Counter[str]
) -> "Iterator[Callable[[Unit], None]]":
    """Shows the progress of a run; at its end prints where the responses are, and what failed.

    The function counts a unit that the store has now. `missing` are the units that each agent lacked.
    """
    from coe_agents.cli.display.progress import progress

    names = [agent.name for agent in group.participants]
    totals = {name: (n_questions - missing[name], n_questions) for name in names}
    n_failed = Counter[str]()
    first_errors: dict[str, str] = {}
    with (
        resumable(lambda: quantity(missing.total(), "reply is", "replies are")),
        progress(totals) as show,
    ):

        def advance(unit: "Unit") -> None:
            error = store.error_of(unit)
            _, agent = unit
            missing[agent] -= 1
            if error is not None:
                n_failed[agent] += 1
                first_errors.setdefault(agent, error)
            show(agent, error is not None)

        yield advance
    print_lines(
        f"{quantity(n_questions, 'question')}, {quantity(len(names), 'agent')}: {clean(str(store.path))}"
    )
    for name in names:
        if n_failed[name]:
            print_lines(
                f"{clean(name)} failed {times(n_failed[name])}; the first error: {clean(first_errors[name])}"
            )
    if n_failed:
        print_lines("Rerun the same command to repeat the failed requests.")
        raise typer.Exit(Exit.FAILED)


def times(n: int) -> str:
    """Returns how often something happened, in words."""
    return "once" if n == 1 else f"{n} times"


def describe_dataset(
    dataset: "QuestionsOnDisk", questions: "Iterable[object]", limit: int
) -> dict[str, Any]:
    """Returns what the settings of a run say about its dataset; `questions` are those chosen.

    The digest is that of a list of JSON, of which one value at a time is in memory.
    """
    digest = hashlib.sha256(b"[")
    separator = ""
    for value in questions:
        digest.update((separator + json.dumps(value)).encode())
        separator = ", "
    digest.update(b"]")
    return {
        "source": dataset.source,
        "n_records": dataset.n_records,
        "n_questions": len(dataset.questions),
        "limit": limit,
        "sha256": digest.hexdigest(),
    }


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
        "it equivalent to one; judge, the [judge] finds it right. Default: as `sample` records it, reference; "
        "for tinyworld its entailment model.",
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
    from coe_agents.cli.display.progress import progress
    from coe_agents.evaluation.origin import DECIDER, DECISIONS, read_run
    from coe_agents.evaluation.sample_collection import Units
    from coe_agents.evaluation.samples.store import Store
    from coe_agents.experiments import dataset_run
    from coe_agents.tinyworld.questions import find_questions

    columns = parse_columns(asking.columns)
    dataset = find_questions(asking.dataset, asking.split, seed=asking.seed, columns=columns)
    questions = dataset.questions.first(asking.limit or None)
    options: dict[str, Any] = {
        "seed": asking.seed,
        "at_once": asking.at_once,
        "correctness": correctness,
        "is_tinyworld": asking.dataset == "tinyworld",
    }
    group = dataset_run.create_run_group(config, **options)
    described = describe_dataset(dataset, map(asdict, questions), asking.limit)
    settings = {"dataset": described, **group.settings}
    units = Units(questions, {DECIDER: 1}, seed=asking.seed)
    n_all = len(questions)
    with (
        Store(asking.out, settings, units, name=DECISIONS) as store,
        dataset_run.Timings(asking.out) as timings,
        resumable(lambda: quantity(store.n_pending, "question is", "questions are")),
        progress(
            {"questions": (n_all - store.n_pending, n_all)}, what=("question", "questions")
        ) as advance,
    ):

        def on_row(row: Mapping[str, Any]) -> None:
            advance("questions", row["error"] is not None)

        if store.n_pending < n_all:
            read_run(asking.out)  # raises before anything is asked, if another release wrote it
        dataset_run.keep_prices(asking.out, group.prices)
        if ray is None:
            import asyncio

            asyncio.run(dataset_run.decide_all(questions, group, store, timings, on_row=on_row))
        elif not store.n_pending:
            store.finish()
        else:
            decide_on_cluster = _ring.load("distributed.command:decide_on_cluster")
            create_group = dataset_run.create_run_group
            kept = {"timings": timings, "on_row": on_row}
            decide_on_cluster(ray, config, create_group, questions, store, **kept, **options)
    _show_end(asking.out, n_all, group.criterion.name)


def _show_end(out: Path, n_items: int, criterion: str) -> None:
    from coe_agents.evaluation.origin import DECISIONS, read_run

    run = read_run(out)
    items = run.items.values()
    n_answered = sum(item.is_answered for item in items)
    verdicts = [item.correct for item in items if item.correct is not None]
    judged = ""
    if verdicts:
        wrong = sum(1 - correct for correct in verdicts)
        judged = f", {wrong:.4g} of these wrong by {criterion}"
    elif n_answered:
        judged = ", none judged"
    n_escalated = sum(item.is_escalated for item in items)
    n_failed_agents = sum(bool(item.decision["failed_agents"]) for item in items)
    withheld = f"{len(items) - n_answered} withheld, {n_escalated} escalated"
    path = clean(str(out / DECISIONS))
    print_lines(
        f"{quantity(n_items, 'question')}: {n_answered} answered{judged}; {withheld}. {path}"
    )
    if n_failed_agents:
        print_lines(
            f"In {n_failed_agents} of them an agent failed in the last round; the others decided."
        )
    if run.errors:
        first, *_ = run.errors.values()
        print_lines(f"The group failed {times(len(run.errors))}; the first error: {clean(first)}")
        print_lines("Rerun the same command to repeat the failed questions.")
        raise typer.Exit(Exit.FAILED)
