"""Owns a run on a Ray cluster: actors decide parts of the questions, and the driver keeps them in the one file."""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import count, islice

from coe_agents.evaluation.datasets import Question
from coe_agents.evaluation.datasets.question import from_plain
from coe_agents.evaluation.run_decisions import DECIDER
from coe_agents.evaluation.samples.store import Store
from coe_agents.experiments.distributed.cluster import Part, Pool, work_through
from coe_agents.experiments.runs.group import RunGroup
from coe_agents.experiments.runs.runner import Row, Timings, decide_each, keep, pending_questions


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

    The questions are read as actors take them, so they may be on the disk.

    `create` makes the group in each actor; Ray carries it there, so it holds no key. The file is the same as that of a
    run in one process. What is in hand when the driver is killed is asked again. Questions that no actor finished
    have failed.

    Raises:
        StoreError: If the cluster failed; finished parts are kept.
        ConfigurationError: If an actor cannot make the group, such as without a key in its environment.
        OSError: If a file cannot be written.
    """
    parts = _to_ask(pending_questions(questions, store), size)
    for _, content in work_through(parts, partial(_Deciding, create), pool, fail_questions):
        for row, seconds in json.loads(zlib.decompress(content)):
            keep(store, timings, row, seconds)
            on_row(row)
    store.finish()


def _to_ask(questions: Iterable[Question], size: int) -> Iterator[Part]:
    waiting = iter(questions)
    for number in count():
        part = list(islice(waiting, size))
        if not part:
            return
        yield number, zlib.compress(json.dumps(list(map(asdict, part))).encode())


def fail_questions(content: bytes, reason: str) -> bytes:
    """Returns a part whose questions all failed for this reason."""
    asked = json.loads(zlib.decompress(content))
    rows = [({"id": question["id"], "agent": DECIDER, "error": reason}, 0.0) for question in asked]
    return zlib.compress(json.dumps(rows).encode())


class _Deciding:
    """Decides the questions of a part."""

    def __init__(self, create: Callable[[], RunGroup], *, runner: asyncio.Runner | None = None) -> None:
        self._group = create()
        self._runner = runner or asyncio.Runner()  # one event loop for all parts: clients are bound to theirs

    def __call__(self, content: bytes) -> bytes:
        questions = list(map(from_plain, json.loads(zlib.decompress(content))))
        found = list[tuple[Row, float]]()
        self._runner.run(decide_each(questions, self._group, lambda *each: found.append(each)))
        return zlib.compress(json.dumps(found).encode())
