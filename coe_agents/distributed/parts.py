"""Owns what the actors of a Ray cluster do: they decide, or sample, parts of a dataset.

What they give is kept as a run in one process keeps it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from coe_agents.distributed.ray_cluster import Pool, Work, cut_parts, pack, unpack, work_through
from coe_agents.evaluation.datasets.question import Question, from_plain
from coe_agents.evaluation.origin import DECIDER
from coe_agents.evaluation.sample_collection import SampledGroup, ask_each, to_failure
from coe_agents.evaluation.samples.store import Store, Unit
from coe_agents.experiments.dataset_run import (
    Row,
    RunGroup,
    Timings,
    decide_each,
    keep,
    pending_questions,
)


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
    pending = pending_questions(questions, store)
    parts = cut_parts(map(asdict, pending), size)
    for content in work_through(parts, partial(_create_decider, create), pool, fail_questions):
        for row, seconds in unpack(content):
            keep(store, timings, row, seconds)
            on_row(row)
    store.finish()


def fail_questions(content: bytes, reason: str) -> bytes:
    """Returns a part whose questions all failed for this reason."""
    rows = []
    for question in unpack(content):
        row = {"id": question["id"], "agent": DECIDER, "error": reason}
        rows.append((row, 0.0))
    return pack(rows)


def _create_decider(create: Callable[[], RunGroup]) -> Work:
    group = create()

    async def decide(content: bytes) -> bytes:
        questions = [from_plain(plain) for plain in unpack(content)]
        decided = list[tuple[Row, float]]()
        await decide_each(questions, group, lambda row, seconds: decided.append((row, seconds)))
        return pack(decided)

    return decide


Rows = Sequence[Mapping[str, Any]]


def sample_parts(
    questions: Iterable[Question],
    create: Callable[[], SampledGroup],
    store: Store,
    pool: Pool,
    *,
    agents: Sequence[str],
    size: int,
    on_unit: Callable[[Unit], None] = lambda unit: None,
) -> None:
    """Asks every agent what the store lacks, on the cluster that `cluster` joined, `size` questions a part.

    The questions are read when their part is sent, so that no more of them are in memory, here and in Ray's object
    store, than those of the parts in hand: one for each actor, and one. `create` makes the agents in each actor; Ray
    carries it there, so it holds no key. The actors ask at the same time, each of them `at_once` questions. `on_unit`
    is called when the store has one more. Of a part that no actor finished, what is missing has failed. Errors are
    those of `work_through`.
    """
    parts = cut_parts(_to_ask(questions, store, agents), size)
    for content in work_through(parts, partial(_create_asker, create), pool, fail_part):
        replies = dict[Unit, Rows]()
        for (question, agent), rows in unpack(content):  # JSON made lists of the units
            replies[question, agent] = rows
        store.append(replies.items())
        for unit in replies:
            on_unit(unit)
    store.finish()


def _to_ask(
    questions: Iterable[Question], store: Store, agents: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for question in questions:
        missing = [name for name in agents if not store.is_kept((question.id, name))]
        if missing:
            yield {"question": asdict(question), "agents": missing}


def _create_asker(create: Callable[[], SampledGroup]) -> Work:
    group = create()

    async def ask(content: bytes) -> bytes:
        questions, pending = _read(content)
        replies = list[tuple[Unit, Rows]]()
        await ask_each(
            questions.values(), group, pending, lambda unit, rows: replies.append((unit, rows))
        )
        return pack(replies)

    return ask


def fail_part(content: bytes, reason: str) -> bytes:
    """Returns a part in which all that was missing failed for this reason."""
    questions, pending = _read(content)
    replies = []
    for question, agent in pending:
        row = to_failure(agent, questions[question], reason)
        replies.append(((question, agent), [row]))
    return pack(replies)


def _read(content: bytes) -> tuple[dict[str, Question], list[Unit]]:
    """Returns the questions of a part by their ids, and what is missing."""
    questions = {}
    pending = []
    for pending_question in unpack(content):
        question = from_plain(pending_question["question"])
        questions[question.id] = question
        for agent in pending_question["agents"]:
            pending.append((question.id, agent))
    return questions, pending
