"""Owns the node that gives each response a cluster."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.types import Overwrite

from coe_agents.clustering import Clusterer, NormalizedMatch
from coe_agents.clustering.answers import canonical_answer, parse_choice
from coe_agents.clustering.refusals import response_text
from coe_agents.clustering.responses import cluster_with_former
from coe_agents.errors import (
    AgentError,
    ClusteringError,
    CoEError,
    describe_error,
    is_control_flow,
    prints_secret,
    secrets_of,
)
from coe_agents.graph import events
from coe_agents.graph.options import Canonicalize
from coe_agents.graph.round_state import agents_counted_as, before
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import clusterer_of, is_about_actions, read_actions
from coe_agents.graph.state import CoEState, read_state
from coe_agents.rounds.trajectory import former_answers
from coe_agents.types import Response, end_of, in_canonical_order, usable

_FEW_CHARACTERS = 2_000
"""Texts of so many characters altogether are read and compared in a few milliseconds at most."""


def cluster_node(clusterer: Clusterer, canonicalize: Canonicalize | None) -> TwoForms:
    """Returns the node that gives each response a cluster.

    It also puts the responses in canonical order, failures last, so that `labels[i]` belongs to `responses[i]`.
    """

    def cluster_now(state: CoEState, *, are_actions: bool) -> dict[str, Any]:
        if state["turn"]["choices"] is not None:
            return cluster_choices(state, state["turn"]["choices"])
        comparing, reads = clusterer, canonicalize
        if are_actions:
            comparing, reads = clusterer_of(state, clusterer), None
            state = read_state(
                {**state, "responses": read_actions(state["responses"], state["turn"])}
            )
        # the exclusion of an agent that is detected late, at a later request, covers its earlier responses
        excluded = agents_counted_as(state, "not")
        given = [row for row in usable(state["responses"]) if row["agent"] not in excluded]
        responses = _with_answers(given, reads)
        if state["turn"]["is_review"]:
            responses = [row if end_of(row) == "whole" else _without_view(row) for row in responses]
        texts = [response_text(response) for response in responses]
        former = former_answers(next(reversed(before(state)), None))  # compared, never measured
        try:
            labels, others = cluster_with_former(
                texts, former, question=state["turn"]["question"], clusterer=comparing
            )
        except Exception as error:
            reraise(error, clusterer, what="responses could not be clustered")
        return _clustered(state, responses, labels, dict(zip(former, others, strict=True)))

    is_quick = type(clusterer) is NormalizedMatch and canonicalize in (None, canonical_answer)

    def cluster(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        return cluster_now(state, are_actions=is_about_actions(state))

    async def acluster(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        texts, are_actions = {row["text"] for row in state["responses"]}, is_about_actions(state)
        if is_quick and not are_actions and sum(map(len, texts)) <= _FEW_CHARACTERS:
            return cluster_now(state, are_actions=False)  # a thread would cost more
        return await asyncio.to_thread(cluster_now, state, are_actions=are_actions)

    return TwoForms(cluster, acluster, name="cluster")


def reraise(error: Exception, part: object, *, what: str) -> NoReturn:
    """Raises the error of a clusterer or of what judges claims again, as one that tells no secret of its model."""
    if is_control_flow(error):
        raise error
    is_secret = prints_secret(error, secrets_of(part, error))
    known = (CoEError, ValueError, TypeError, ImportError, OSError)
    if is_secret or isinstance(error, AgentError) or not isinstance(error, known):
        message = f"the {what}: {describe_error(error, part)}"
        hint = 'Check the model that is asked for it; "coe-agents doctor" tries it alone'
        raise ClusteringError(message, hint=hint) from None if is_secret else error
    raise error


def cluster_choices(state: CoEState, choices: Sequence[str]) -> dict[str, Any]:
    """Gives each response the cluster of the choice that its raw text consists of; all others share one cluster.

    An answer that an agent extracted itself does not count, nor does a reply that is not whole.
    """
    rows = usable(state["responses"])
    read = [parse_choice(row["text"], choices) if end_of(row) == "whole" else None for row in rows]
    responses: list[Response] = [
        {**row, "answer": _other(row["text"], choices) if choice is None else choice}
        for row, choice in zip(rows, read, strict=True)
    ]
    numbers: dict[str | None, int] = {}
    labels = [numbers.setdefault(choice, len(numbers)) for choice in read]
    former = former_answers(next(reversed(before(state)), None))
    former_labels = {
        text: numbers.setdefault(parse_choice(text, choices), len(numbers)) for text in former
    }
    return _clustered(state, responses, labels, former_labels)


def _without_view(row: Response) -> Response:
    """Returns a reply to a review that is not whole as an empty one, whatever it begins with."""
    return {**row, "answer": ""} if row.get("calls") is None else {**row, "text": ""}


def _other(text: str, choices: Sequence[str]) -> str:
    """Returns a reply that is not a choice, changed if stripping white space would make it one."""
    return text if parse_choice(text.strip(), choices) is None else f"(not a choice: {text!r})"


def _clustered(
    state: CoEState,
    responses: Sequence[Response],
    labels: Sequence[int],
    former_labels: Mapping[str, int],
) -> dict[str, Any]:
    failures = in_canonical_order(
        [response for response in state["responses"] if response["error"] is not None]
    )
    sizes = [count for _, count in sorted(Counter(labels).items())]
    events.emit(
        events.Event(event="clustered", round=state["round"], n_clusters=len(sizes), sizes=sizes)
    )
    rows = Overwrite([*responses, *failures])
    return {"responses": rows, "labels": list(labels), "former_labels": dict(former_labels)}


def _with_answers(
    responses: Sequence[Response], canonicalize: Canonicalize | None
) -> list[Response]:
    """Returns the responses, with short answers for those without one; equal texts are read once."""
    if canonicalize is None:
        return list(responses)
    unread = dict.fromkeys(response["text"] for response in responses if response["answer"] is None)
    found = {text: answer for text in unread if (answer := canonicalize(text)) != text}
    if not found:
        return list(responses)
    return [
        {**row, "answer": found.get(row["text"])} if row["answer"] is None else row
        for row in responses
    ]
