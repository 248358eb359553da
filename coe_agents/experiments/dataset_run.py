"""Owns a run of a policy over a dataset, in this process or by the actors of a Ray cluster.

Questions are asked concurrently; each decision is on the disk before the next one, in one file.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.datasets.question import from_plain
from coe_agents.evaluation.run_decisions import DECIDER, PRICES, SECONDS
from coe_agents.evaluation.sample_collection import run_all
from coe_agents.evaluation.samples.store import Store
from coe_agents.experiments.ray_cluster import Pool, cut_parts, pack, unpack, work_through
from coe_agents.experiments.run_group import RunGroup
from coe_agents.files import append, write

Row = dict[str, Any]


class Timings:
    """The seconds of each question, in a file of their own: they differ each time. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SECONDS

    def __enter__(self) -> "Timings":
        self._file = self._path.open("ab", buffering=0)
        with self._path.open("rb") as written:  # a kill may have left half a line
            self._file.truncate(sum(len(line) for line in written if line.endswith(b"\n")))
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, id: str, seconds: float) -> None:
        """Notes how long a question took; the last note of a question counts."""
        line = json.dumps({"id": id, "seconds": round(seconds, 4)}).encode() + b"\n"
        append(self._file.fileno(), line, path=self._path)


def keep_prices(folder: Path, prices: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the prices of the configuration beside the decisions, or removes them."""
    if prices:
        write(folder / PRICES, json.dumps(prices, indent=2).encode() + b"\n")
    else:
        (folder / PRICES).unlink(missing_ok=True)


async def decide_all(
    questions: Iterable[Question],
    group: RunGroup,
    store: Store,
    timings: Timings,
    *,
    on_row: Callable[[Row], None] = lambda row: None,
) -> None:
    """Asks the group the questions that the store lacks, keeps every decision, and sorts the store."""

    def note(row: Row, seconds: float) -> None:
        keep(store, timings, row, seconds)
        on_row(row)

    await _decide_each(pending_questions(questions, store), group, note)
    store.finish()


async def _decide_each(questions: Iterable[Question], group: RunGroup, note: Callable[[Row, float], None]) -> None:
    """Asks the group all questions, and passes each line on with its seconds before the next question is asked."""
    waiting = iter(questions)

    async def work() -> None:
        for question in waiting:
            note(*await group.decide(question))

    await run_all(work() for _ in range(group.at_once))


def pending_questions(questions: Iterable[Question], store: Store) -> Iterator[Question]:
    """Yields the questions that a store lacks when their turn comes, in order."""
    return (question for question in questions if not store.is_kept((question.id, DECIDER)))


def keep(store: Store, timings: Timings, row: Row, seconds: float) -> None:
    """Keeps a decision; its seconds first, so that none is without."""
    if row["error"] is None:
        timings.append(row["id"], seconds)
    store.append((row["id"], DECIDER), [row])


def decide_parts(
    questions: Iterable[Question],
    create: Callable[[], RunGroup],
    store: Store,
    timings: Timings,
    pool: Pool,
    *,
    size: int,
    on_row: Callable[[Row], None] = lambda row: None,
) -> None:
    """Asks the questions that the store lacks on the cluster that `cluster` joined, `size` of them a part.

    The questions are read as actors take them. `create` makes the group in each actor; Ray carries it there, so it
    holds no key. The file is the same as that of a run in one process. What is in hand when the driver is killed is
    asked again. Questions that no actor finished have failed. Errors are those of `work_through`.
    """
    parts = cut_parts(map(asdict, pending_questions(questions, store)), size)
    for content in work_through(parts, partial(_Deciding, create), pool, fail_questions):
        for row, seconds in unpack(content):
            keep(store, timings, row, seconds)
            on_row(row)
    store.finish()


def fail_questions(content: bytes, reason: str) -> bytes:
    """Returns a part whose questions all failed for this reason."""
    asked = unpack(content)
    rows = [({"id": question["id"], "agent": DECIDER, "error": reason}, 0.0) for question in asked]
    return pack(rows)


class _Deciding:
    def __init__(self, create: Callable[[], RunGroup]) -> None:
        self._group = create()

    async def __call__(self, content: bytes) -> bytes:
        found = list[tuple[Row, float]]()
        await _decide_each(map(from_plain, unpack(content)), self._group, lambda *each: found.append(each))
        return pack(found)
