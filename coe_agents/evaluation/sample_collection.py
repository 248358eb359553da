"""Owns asking many agents many questions concurrently, and keeping their replies."""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any

from coe_agents.clustering.answers import canonical_answer
from coe_agents.errors import describe_error
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.samples.store import Store, Unit, is_failed
from coe_agents.text import quantity, safe_message
from coe_agents.types import AgentReply, Fields, JsonObject, Response, create_response, end_of

Ask = Callable[[str, Question], Awaitable[AgentReply]]
"""Asks the agent of a name; it may raise."""

Annotate = Callable[[str, Question, list[JsonObject]], Awaitable[None]]
"""Adds to the rows of an agent's reply, such as its own assessment of them; it may raise."""


@dataclass(frozen=True, slots=True)
class Participant:
    """An agent as the runner sees it: `n_samples` responses a question, and `at_once` questions at a time.

    Where it does not say how many responses it gives, `n_samples` is None, and all count.
    """

    name: str
    n_samples: int | None
    at_once: int = 8


@dataclass(frozen=True)
class SampledGroup:
    """The agents of a run.

    Attributes:
        annotate: Asks an agent about its own answers, given the rows of a complete reply; None without self-checks.
        settings: All on which responses depend, without keys and addresses.
        secrets: Strings that no error may contain.
    """

    participants: Sequence[Participant]
    ask: Ask
    annotate: Annotate | None = None
    settings: Fields = field(default_factory=dict)
    secrets: Collection[str] = frozenset()


def units_of(questions: Iterable[Question], n_rows: Mapping[str, int]) -> dict[Unit, int]:
    """Returns what a run consists of, as `Store` takes it: `n_rows` of each agent, by the questions in their order."""
    units = {}
    for question in questions:
        for agent, n in n_rows.items():
            units[question.id, agent] = n
    return units


async def sample(
    questions: Iterable[Question],
    group: SampledGroup,
    store: Store,
    *,
    on_unit: Callable[[Unit], None] = lambda unit: None,
) -> None:
    """Asks every agent the questions that the store lacks, keeps every reply, and sorts the store.

    A failure, also of `annotate`, is kept as a row whose `error` gives the reason; it is not an answer, and the next
    run asks again. An invalid proposal has an `error`, too, but it is a response: it is not asked for again. The store
    is made for the `units_of` these questions and agents; `on_unit` is called when it has one more. If it cannot be
    written, an OSError is raised, and earlier replies are kept.
    """

    def note(unit: Unit, rows: Sequence[Fields]) -> None:
        store.append([(unit, rows)])
        on_unit(unit)

    await ask_each(questions, group, set(store.pending_units()), note)
    store.finish()


async def ask_each(
    questions: Iterable[Question],
    group: SampledGroup,
    pending: Collection[Unit],
    note: Callable[[Unit, list[JsonObject]], None],
) -> None:
    """Asks every agent, at its own pace, what is pending, and passes the rows of each reply on."""

    async def work(agent: Participant, waiting: Iterator[Question]) -> None:
        for question in waiting:
            rows = await _rows(agent, question, group)
            note((question.id, agent.name), rows)

    works = []
    for agent in group.participants:
        # all works of an agent take their questions from one iterator
        waiting = iter([question for question in questions if (question.id, agent.name) in pending])
        for _ in range(agent.at_once):
            works.append(work(agent, waiting))
    await run_all(works)


async def run_all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs coroutines concurrently; when one raises, the others are cancelled, and have ended, before it raises."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _rows(agent: Participant, question: Question, group: SampledGroup) -> list[JsonObject]:
    try:
        reply = await group.ask(agent.name, question)
        rows = _to_rows(agent, question, reply, group.secrets)
        if group.annotate is not None and not is_failed(rows):
            await group.annotate(agent.name, question, rows)
    except Exception as error:
        reason = describe_error(error, secrets=group.secrets)
        return [to_failure(agent.name, question, reason)]
    return rows


def _to_rows(
    agent: Participant, question: Question, reply: AgentReply, secrets: Collection[str]
) -> list[JsonObject]:
    """Returns the rows of a reply; if it is not complete, the last one is a failure."""
    responses = reply["responses"]
    rows = [to_sample(question, response) for response in responses[: agent.n_samples]]
    if agent.n_samples is None and rows:
        return [{**row, "n_responses": len(rows)} for row in rows]
    if len(responses) == agent.n_samples:
        return rows

    sampling = reply.get("sampling")
    why = (sampling and (sampling["error"] or sampling["probe"])) or "no reason given"
    n_samples = agent.n_samples or 1
    error = f"got {len(responses)} of {quantity(n_samples, 'response')}: {why}"
    # where there are too many, it is not known which one is wrong
    rows = rows[: n_samples - 1]
    message = safe_message(error, secrets)
    rows.append(to_failure(agent.name, question, message, index=len(rows)))
    return rows


def to_sample(question: Question, response: Response) -> JsonObject:
    """Returns a response as a line of a file of samples; `answer` is the short one, where the text holds one.

    A line without an `end` is of a whole response.
    """
    answer = response["answer"]
    calls = response.get("calls")
    if answer is None and calls is None and response["error"] is None:
        canonical = canonical_answer(response["text"])
        if canonical != response["text"].strip():
            answer = canonical

    row = {
        "id": question.id,
        "question": question.question,
        "references": list(question.references),
        "agent": response["agent"],
        "round": response["round"],
        "index": response["index"],
        "text": response["text"],
        "answer": answer,
        "logprob": response["logprob"],
        "n_tokens": response["n_tokens"],
        "correct": None,
        "error": response["error"],
        "answerable": question.answerable,
        "calls": calls,
        "tools": question.tools,
        "confidence": response.get("confidence"),
    }
    end = end_of(response)
    if end != "whole":
        row["end"] = end
    return row


def to_failure(agent: str, question: Question, error: str, *, index: int = 0) -> JsonObject:
    """Returns the row of a failed unit; it names no tools, unlike that of an invalid proposal: see `is_failure`."""
    response = create_response(agent, "", index=index, error=error)
    return {**to_sample(question, response), "tools": None}
