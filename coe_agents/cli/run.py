"""Owns the command `run`: asks the whole graph, as configured, the questions of a dataset, and keeps each decision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coe_agents._plurals import quantity
from coe_agents.cli.ask import load_quietly
from coe_agents.cli.engine import create_pool, ray_options, share_limits
from coe_agents.cli.interrupts import resumable
from coe_agents.cli.options import EngineOptions, Exit, QuestionOptions, expand_options
from coe_agents.cli.sample import describe_dataset, find_questions, most_actors, times
from coe_agents.cli.terminal import clean, print_lines

if TYPE_CHECKING:
    from coe_agents.evaluation.samples.store import Store

RUN_EPILOG = (
    "Exit status: 0 every question was decided, 1 a question failed or a decision could not be stored, 2 a mistake in "
    "the command, 130 interrupted."
)
Correctness = Literal["reference", "f1", "rouge_l"]
People = Literal["record", "references"]


@expand_options
def run(
    engine: EngineOptions,
    asking: QuestionOptions,
    people: Annotated[
        People,
        typer.Option(
            help="Where a person should decide: record, the question stays escalated; references, the accepted answers "
            "of the dataset decide in the person's place."
        ),
    ] = "record",
    correctness: Annotated[
        Correctness,
        typer.Option(
            help="When an answer is right: reference, it equals a reference answer; f1 and rouge_l, it shares words "
            "with one. tinyworld is judged by its facts."
        ),
    ] = "reference",
    partition_size: Annotated[
        int, typer.Option(min=1, help="With --engine ray: questions that are decided before their decisions are kept.")
    ] = 10,
) -> None:
    """Ask the group as configured, with rounds, adaptive sampling and escalation, and keep every decision.

    The graph gets each question as `ask` does: instructions belong into system_prompt of the configuration.
    """
    ray = ray_options(engine)
    settings, out, seed = load_quietly(asking.config), asking.out, asking.seed
    # slow to import: mistakes above are reported first
    from coe_agents.runs import Timings, create_run_group, decide_all, keep_prices
    from coe_agents.runs.runner import Units

    found = find_questions(asking.dataset, asking.split, seed=seed)
    questions = found.questions.first(asking.limit or None)
    options: dict[str, Any] = {
        "seed": seed,
        "at_once": asking.at_once,
        "people": people,
        "correctness": correctness,
        "is_tinyworld": asking.dataset == "tinyworld",
    }
    group = create_run_group(settings, **options)
    depends = {"dataset": describe_dataset(found, map(asdict, questions), asking.limit), **group.settings}
    from coe_agents.evaluation.decisions import DECISIONS
    from coe_agents.evaluation.samples.store import Store

    with (
        Store(out, depends, Units(questions, seed=seed), name=DECISIONS) as store,
        Timings(out) as timings,
        _progress(len(questions), store) as on_row,
    ):
        keep_prices(out, group.prices)
        if ray is None:
            import asyncio

            asyncio.run(decide_all(questions, group, store, timings, on_row=on_row))
        elif n_pending := store.n_pending:
            from coe_agents.distributed import cluster
            from coe_agents.runs.parts import decide_parts

            with cluster(ray.address):
                pool = create_pool(
                    ray, n_parts=-(-n_pending // partition_size), bound=most_actors(settings, asking.at_once)
                )
                # called in the actors, whose environment holds the keys
                shared = share_limits(settings, pool.n_actors)
                create = partial(create_run_group, shared, n_sharing=pool.n_actors, **options)
                decide_parts(questions, create, store, timings, pool, size=partition_size, on_row=on_row)


@dataclass(slots=True)
class _Tally:
    """What is decided so far."""

    n: int = 0
    n_answered: int = 0
    n_judged: int = 0
    wrong: float = 0.0
    n_escalated: int = 0
    n_failed_agents: int = 0
    first_error: str | None = None
    n_errors: int = 0

    def add(self, row: dict[str, Any]) -> None:
        if row["error"] is not None:
            self.n_errors += 1
            self.first_error = self.first_error or row["error"]
            return
        from coe_agents.evaluation.decisions import to_item

        item = to_item(row)
        self.n += 1
        self.n_answered += item.is_answered
        self.n_escalated += any(step.escalated for step in item.steps)
        self.n_failed_agents += any(step.decision["failed_agents"] for step in item.steps)
        if item.correct is not None:
            self.n_judged += 1
            self.wrong += 1 - item.correct

    def figures(self) -> str:
        if not self.n:
            return ""
        risk = f", {self.wrong / self.n_judged:.1%} of these wrong" if self.n_judged else ""
        return f"{self.n_answered / self.n:.1%} answered{risk}"


@contextmanager
def _progress(n_items: int, store: "Store") -> Iterator[Callable[[dict[str, Any]], None]]:
    """Shows the progress of a run with its coverage and risk; at its end says what became of the questions."""
    from coe_agents.cli.display.progress import progress
    from coe_agents.runs.runner import kept_rows

    tally = _Tally()
    for row in kept_rows(store):
        tally.add(row)
    with (
        resumable(lambda: quantity(store.n_pending, "question is", "questions are")),
        progress({"questions": (tally.n, n_items)}, what=("question", "questions"), figures=tally.figures) as advance,
    ):

        def on_item(row: dict[str, Any]) -> None:
            tally.add(row)
            advance("questions", row["error"] is not None)

        yield on_item
    _show_end(tally, n_items, store.path)


def _show_end(tally: _Tally, n_items: int, path: Path) -> None:
    answered = f"{tally.n_answered} answered" + (
        f", {tally.wrong:.4g} of these wrong" if tally.n_judged else ", none judged" if tally.n_answered else ""
    )
    withheld = f"{tally.n - tally.n_answered} withheld, {tally.n_escalated} escalated"
    print_lines(f"{quantity(n_items, 'question')}: {answered}; {withheld}. {clean(str(path))}")
    if tally.n_failed_agents:
        print_lines(f"In {tally.n_failed_agents} of them an agent failed in the last round; the others decided.")
    if tally.n_errors:
        print_lines(f"The group failed {times(tally.n_errors)}; the first error: {clean(tally.first_error or '')}")
        print_lines("Rerun the same command to repeat the failed questions.")
        raise typer.Exit(Exit.FAILED)
