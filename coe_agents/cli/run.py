"""Owns the command `run`: asks the whole graph, as configured, the questions of a dataset, and keeps each decision."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coe_agents.cli.inputs import create_pool, load_quietly, ray_options
from coe_agents.cli.interrupts import resumable
from coe_agents.cli.options import EngineOptions, Exit, QuestionOptions, expand_options
from coe_agents.cli.sample import describe_dataset, times
from coe_agents.cli.terminal import clean, print_lines
from coe_agents.text import quantity

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
    """Ask the group as configured, with rounds, adaptive sampling and escalation, and keep every decision.

    The graph gets each question as `ask` does: instructions belong into system_prompt of the configuration.
    """
    ray = ray_options(engine)
    settings, out, seed = load_quietly(asking.config), asking.out, asking.seed
    # slow to import: mistakes above are reported first
    from coe_agents.experiments.dataset_run import Timings, decide_all, keep_prices
    from coe_agents.experiments.run_group import create_run_group
    from coe_agents.tinyworld.questions import find_questions

    found = find_questions(asking.dataset, asking.split, seed=seed)
    questions = found.questions.first(asking.limit or None)
    options: dict[str, Any] = {
        "seed": seed,
        "at_once": asking.at_once,
        "correctness": correctness,
        "is_tinyworld": asking.dataset == "tinyworld",
    }
    group = create_run_group(settings, **options)
    depends = {"dataset": describe_dataset(found, map(asdict, questions), asking.limit), **group.settings}
    from coe_agents.cli.display.progress import progress
    from coe_agents.evaluation.run_decisions import DECIDER, DECISIONS, read_run
    from coe_agents.evaluation.sample_collection import Units
    from coe_agents.evaluation.samples.store import Store

    n_all = len(questions)
    with (
        Store(out, depends, Units(questions, {DECIDER: 1}, seed=seed), name=DECISIONS) as store,
        Timings(out) as timings,
        resumable(lambda: quantity(store.n_pending, "question is", "questions are")),
        progress({"questions": (n_all - store.n_pending, n_all)}, what=("question", "questions")) as advance,
    ):

        def on_row(row: Mapping[str, Any]) -> None:
            advance("questions", row["error"] is not None)

        if store.n_pending < n_all:
            read_run(out)  # raises before anything is asked, if another release wrote it
        keep_prices(out, group.prices)
        if ray is None:
            import asyncio

            asyncio.run(decide_all(questions, group, store, timings, on_row=on_row))
        elif not (n_pending := store.n_pending):
            store.finish()
        else:
            from coe_agents.experiments.dataset_run import decide_parts
            from coe_agents.experiments.ray_cluster import cluster

            with cluster(ray.address):
                size = ray.partition_size or 10
                n_parts = -(-n_pending // size)
                pool, create = create_pool(ray, settings, create_run_group, n_parts=n_parts, **options)
                decide_parts(questions, create, store, timings, pool, size=size, on_row=on_row)
    _show_end(out, n_all, group.criterion.name)


def _show_end(out: Path, n_items: int, criterion: str) -> None:
    from coe_agents.evaluation.run_decisions import DECISIONS, read_run

    run = read_run(out)
    items = run.items.values()
    n_answered = sum(item.is_answered for item in items)
    verdicts = [item.correct for item in items if item.correct is not None]
    wrong = sum(1 - correct for correct in verdicts)
    judged = f", {wrong:.4g} of these wrong by {criterion}" if verdicts else ", none judged" if n_answered else ""
    n_escalated = sum(item.is_escalated for item in items)
    n_failed_agents = sum(bool(item.decision["failed_agents"]) for item in items)
    withheld = f"{len(items) - n_answered} withheld, {n_escalated} escalated"
    path = clean(str(out / DECISIONS))
    print_lines(f"{quantity(n_items, 'question')}: {n_answered} answered{judged}; {withheld}. {path}")
    if n_failed_agents:
        print_lines(f"In {n_failed_agents} of them an agent failed in the last round; the others decided.")
    if run.errors:
        first, *_ = run.errors.values()
        print_lines(f"The group failed {times(len(run.errors))}; the first error: {clean(first)}")
        print_lines("Rerun the same command to repeat the failed questions.")
        raise typer.Exit(Exit.FAILED)
