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
from coe_agents.cli.inputs import create_setting, load_quietly, ray_options
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
        load_quietly(sampling.config),
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
    names_all = scoring.clusterer is not None and scoring.correctness != "judge"
    own = replace(scoring, config=None if names_all else sampling.config)
    if own.correctness == "judge" or (
        own.correctness == "entailment" and (own.config or own.clusterer)
    ):
        create_setting(
            own, [sampling.out]
        )  # a model that is missing is reported before anybody is asked
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        sample_to(
            sampling, load_quietly(sampling.config), engine=ray_options(engine), scoring=scoring
        )
    show_scores([sampling.out], own, as_json=as_json)


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

    seed, passages = options.seed, options.with_context
    found = find_questions(options.dataset, options.split, seed=seed)
    questions = found.questions.first(options.limit or None)
    for question in questions if passages else ():
        question.prompt(with_context=True)  # raises where there is no passage, before a run begins
    from coe_agents.config.sampling_group import (
        create_group,  # slow to import: mistakes above are reported first
        judging_of,
    )
    from coe_agents.evaluation.origin import JUDGED, Judging, recorded_judging

    p_false = options.p_false
    asked: dict[str, Any] = {
        "seed": seed,
        "at_once": options.at_once,
        "p_false": p_false,
        "passages": passages,
    }
    group = create_group(config, **asked)
    judging = judging_of(config, is_tinyworld=options.dataset == "tinyworld")
    if scoring is not None and scoring.correctness is not None:
        judging = Judging(scoring.clusterer or judging.clusterer, scoring.correctness)
    settings = {
        "dataset": describe_dataset(found, map(asdict, questions), options.limit),
        "seed": seed,
        JUDGED: (recorded_judging([options.out]) or judging).to_json(),
        "prompt": {"passages": passages},
        **group.settings,
    }
    from coe_agents.evaluation.sample_collection import Units
    from coe_agents.evaluation.sample_collection import sample as sample_all
    from coe_agents.evaluation.samples.store import Store

    units = Units(
        questions, {agent.name: agent.n_samples for agent in group.participants}, seed=seed
    )
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
                sample_on_cluster(engine, config, create_group, questions, store, **kept, **asked)


@contextmanager
def _progress_and_summary(
    group: "SampledGroup", n_questions: int, store: "Store", missing: Counter[str]
) -> "Iterator[Callable[[Unit], None]]":
    """Shows the progress of a run; at its end prints where the responses are, and what failed.

    The function counts a unit that the store has now. `missing` are the units that each agent lacked.
    """
    from coe_agents.cli.display.progress import progress

    agents = group.participants
    totals = {agent.name: (n_questions - missing[agent.name], n_questions) for agent in agents}
    n_failed, first_errors = Counter[str](), dict[str, str]()
    with (
        resumable(lambda: quantity(missing.total(), "reply is", "replies are")),
        progress(totals) as show,
    ):

        def advance(unit: "Unit") -> None:
            error, (_, agent) = store.error_of(unit), unit
            missing[agent] -= 1
            if error is not None:
                n_failed[agent] += 1
                first_errors.setdefault(agent, error)
            show(agent, error is not None)

        yield advance
    print_lines(
        f"{quantity(n_questions, 'question')}, {quantity(len(agents), 'agent')}: {clean(str(store.path))}"
    )
    for name in (agent.name for agent in agents if n_failed[agent.name]):
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
    found: "QuestionsOnDisk", asked: "Iterable[object]", limit: int
) -> dict[str, Any]:
    """Returns what the settings of a run say about its dataset; `asked` are the questions chosen.

    The digest is that of a list of JSON, of which one value at a time is in memory.
    """
    digest, separator = hashlib.sha256(b"["), ""
    for value in asked:
        digest.update((separator + json.dumps(value)).encode())
        separator = ", "
    digest.update(b"]")
    counts = {"n_records": found.n_records, "n_questions": len(found.questions), "limit": limit}
    return {"source": found.source, **counts, "sha256": digest.hexdigest()}


RUN_EPILOG = (
    "Exit status: 0 every question was decided, 1 a question failed or a decision could not be stored, 2 a mistake in "
    "the command, 130 interrupted."
)
Correctness = Literal["reference", "f1", "rouge_l", "entailment", "judge"]


@expand_options
def run(
    engine: EngineOptions,
    asking: QuestionOptions,
    correctness: Annotated[
        Correctness | None,
        typer.Option(
            metavar="NAME",
            help="When an answer is right: reference, it equals a reference answer; f1 and rouge_l, it shares words "
            "with one; entailment, the entailment model of [clusterer] finds it equivalent to one; judge, the [judge] "
            "finds it right. Default: as `sample` records it, reference; for tinyworld its entailment model.",
        ),
    ] = None,
) -> None:
    """Ask the group as configured, with rounds and escalation, and keep every decision.

    The graph gets each question as `ask` does: instructions belong into system_prompt of the configuration.
    """
    ray = ray_options(engine)
    settings, out, seed = load_quietly(asking.config), asking.out, asking.seed
    # slow to import: mistakes above are reported first
    from coe_agents.experiments.dataset_run import (
        Timings,
        create_run_group,
        decide_all,
        keep_prices,
    )
    from coe_agents.tinyworld.questions import find_questions

    found = find_questions(asking.dataset, asking.split, seed=seed)
    questions = found.questions.first(asking.limit or None)
    options: dict[str, Any] = {"seed": seed, "at_once": asking.at_once, "correctness": correctness}
    options["is_tinyworld"] = asking.dataset == "tinyworld"
    group = create_run_group(settings, **options)
    depends = {
        "dataset": describe_dataset(found, map(asdict, questions), asking.limit),
        **group.settings,
    }
    from coe_agents.cli.display.progress import progress
    from coe_agents.evaluation.origin import DECIDER, DECISIONS, read_run
    from coe_agents.evaluation.sample_collection import Units
    from coe_agents.evaluation.samples.store import Store

    n_all = len(questions)
    with (
        Store(out, depends, Units(questions, {DECIDER: 1}, seed=seed), name=DECISIONS) as store,
        Timings(out) as timings,
        resumable(lambda: quantity(store.n_pending, "question is", "questions are")),
        progress(
            {"questions": (n_all - store.n_pending, n_all)}, what=("question", "questions")
        ) as advance,
    ):

        def on_row(row: Mapping[str, Any]) -> None:
            advance("questions", row["error"] is not None)

        if store.n_pending < n_all:
            read_run(out)  # raises before anything is asked, if another release wrote it
        keep_prices(out, group.prices)
        if ray is None:
            import asyncio

            asyncio.run(decide_all(questions, group, store, timings, on_row=on_row))
        elif not store.n_pending:
            store.finish()
        else:
            decide_on_cluster = _ring.load("distributed.command:decide_on_cluster")
            kept = {"timings": timings, "on_row": on_row}
            decide_on_cluster(ray, settings, create_run_group, questions, store, **kept, **options)
    _show_end(out, n_all, group.criterion.name)


def _show_end(out: Path, n_items: int, criterion: str) -> None:
    from coe_agents.evaluation.origin import DECISIONS, read_run

    run = read_run(out)
    items = run.items.values()
    n_answered = sum(item.is_answered for item in items)
    verdicts = [item.correct for item in items if item.correct is not None]
    wrong = sum(1 - correct for correct in verdicts)
    judged = (
        f", {wrong:.4g} of these wrong by {criterion}"
        if verdicts
        else ", none judged"
        if n_answered
        else ""
    )
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
