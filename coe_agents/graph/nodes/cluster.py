"""Owns the node that gives each response a cluster."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.types import Overwrite

from coe_agents.actions.canonical import read_action
from coe_agents.actions.match import ActionMatch
from coe_agents.actions.proposals import compared_answer
from coe_agents.clustering import Clusterer, NormalizedMatch
from coe_agents.clustering.answers import canonical_answer, parse_choice
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.clustering.protocols import by_first_appearance
from coe_agents.clustering.refusals import answer_kind, response_text
from coe_agents.clustering.responses import cluster_with_former
from coe_agents.clustering.unjudged import note_unjudged
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
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import clusterer_of, is_about_actions, read_actions
from coe_agents.graph.state import CoEState, agents_counted_as, before, read_state
from coe_agents.prompts import REVIEW_CHOICES
from coe_agents.rounds.trajectory import former_answers
from coe_agents.types import Response, end_of, in_canonical_order, usable

_FEW_CHARACTERS = 2_000
"""Texts of so many characters altogether are read and compared in a few milliseconds at most."""


class _ByKind:
    """A clusterer of proposals of which those that call nothing are compared as texts."""

    def __init__(self, actions: Clusterer, texts: Clusterer) -> None:
        self._actions = actions
        self._texts = texts

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        labels = []
        for texts, question in zip(responses, questions, strict=True):
            labels.append(self._labels(texts, question))
        return labels

    def _labels(self, responses: Sequence[str], question: str) -> list[int]:
        texts = []
        actions = []
        for response in responses:
            if read_action(response) is None:
                texts.append(response)
            else:
                actions.append(response)

        # no text shares a cluster with an action
        clusters: dict[str, tuple[str, int]] = {}
        for kind, clusterer, of_kind in (
            ("text", self._texts, texts),
            ("action", self._actions, actions),
        ):
            if of_kind:
                [labels] = clusterer.cluster([of_kind], [question])
                for response, label in zip(of_kind, labels, strict=True):
                    clusters[response] = (kind, label)
        return by_first_appearance([clusters[response] for response in responses])


def cluster_node(
    clusterer: Clusterer, canonicalize: Canonicalize | None, *, compares_texts: bool = False
) -> TwoForms:
    """Returns the node that gives each response a cluster; `compares_texts` is as in `GraphOptions`.

    It also puts the responses in canonical order, failures last, so that `labels[i]` belongs to `responses[i]`.
    """

    def cluster_now(state: CoEState, *, are_actions: bool) -> dict[str, Any]:
        turn = state["turn"]
        if turn["choices"] is not None:
            return cluster_choices(state, turn["choices"])

        comparing = clusterer
        if are_actions:
            comparing = clusterer_of(state, clusterer)
            rows = read_actions(state["responses"], turn)
            if compares_texts and not isinstance(clusterer, ActionMatch):
                comparing = _ByKind(comparing, clusterer)
                rows = [_with_text(row, canonicalize) for row in rows]
            state = read_state({**state, "responses": rows})

        # the exclusion of an agent that is detected late, at a later request, covers its earlier responses
        excluded = agents_counted_as(state, "not")
        responses = [row for row in usable(state["responses"]) if row["agent"] not in excluded]
        if canonicalize is not None and not are_actions:
            responses = _with_answers(responses, canonicalize)
        if turn["is_review"]:
            responses = [row if end_of(row) == "whole" else _without_view(row) for row in responses]

        texts = [response_text(response) for response in responses]
        former = _former_answers(state)
        try:
            with note_unjudged() as noted:
                labels, labels_of_former = cluster_with_former(
                    texts, former, question=turn["question"], clusterer=comparing
                )
            noted.check()
        except Exception as error:
            reraise(error, clusterer, what="responses could not be clustered")
        former_labels = dict(zip(former, labels_of_former, strict=True))
        update = _clustered(state, responses, labels, former_labels)
        return {**update, "unjudged": noted.in_words()}

    is_quick = type(clusterer) is NormalizedMatch and canonicalize in (None, canonical_answer)

    def cluster(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        return cluster_now(state, are_actions=is_about_actions(state))

    async def acluster(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        are_actions = is_about_actions(state)
        different_texts = {row["text"] for row in state["responses"]}
        n_characters = sum(map(len, different_texts))
        # a thread would cost more
        if is_quick and not are_actions and n_characters <= _FEW_CHARACTERS:
            return cluster_now(state, are_actions=False)
        return await asyncio.to_thread(cluster_now, state, are_actions=are_actions)

    return TwoForms(cluster, acluster, name="cluster")


def reraise(error: Exception, part: object, *, what: str) -> NoReturn:
    """Raises the error of a clusterer or of what judges claims again, as one that tells no secret of its model."""
    if is_control_flow(error):
        raise error
    is_secret = prints_secret(error, secrets_of(part, error))
    known = (CoEError, ValueError, TypeError, ImportError, OSError)
    is_known = isinstance(error, known) and not isinstance(error, AgentError)
    if is_known and not is_secret:
        raise error
    message = f"the {what}: {describe_error(error, part)}"
    hint = 'Check the model that is asked for it; "coe-agents doctor" tries it alone'
    raise ClusteringError(message, hint=hint) from None if is_secret else error


def cluster_choices(state: CoEState, choices: Sequence[str]) -> dict[str, Any]:
    """Gives each response the cluster of the choice that its raw text consists of.

    Of other replies, equal ones share a cluster, and so do all refusals and all empty ones. In a review, all others
    share one: there they are as many votes against each choice. An answer that an agent extracted itself does not
    count, nor does a reply that is not whole.
    """
    is_review = state["turn"]["is_review"] or {*choices} == {*REVIEW_CHOICES}
    numbers: dict[str, int] = {}

    def number_of(choice: str | None, text: str) -> int:
        if choice is not None:
            key = f"choice {choice}"
        elif is_review:
            key = "other"
        else:
            kind = answer_kind(text)
            key = f"other {normalize_answer(text)}" if kind == "answer" else kind
        return numbers.setdefault(key, len(numbers))

    responses: list[Response] = []
    labels: list[int] = []
    for row in usable(state["responses"]):
        choice = None
        if end_of(row) == "whole":
            choice = parse_choice(row["text"], choices)
        answer = _other(row["text"], choices) if choice is None else choice
        responses.append({**row, "answer": answer})
        labels.append(number_of(choice, answer))

    former_labels = {}
    for text in _former_answers(state):
        former_labels[text] = number_of(parse_choice(text, choices), text)
    return _clustered(state, responses, labels, former_labels)


def _former_answers(state: CoEState) -> list[str]:
    """Returns the texts that led in the round before, which are compared and never measured."""
    rounds = before(state)
    return former_answers(rounds[-1] if rounds else None)


def _without_view(row: Response) -> Response:
    """Returns a reply to a review that is not whole as an empty one, whatever it begins with."""
    if row.get("calls") is None:
        return {**row, "answer": ""}
    return {**row, "text": ""}


def _other(text: str, choices: Sequence[str]) -> str:
    """Returns a reply that is not a choice, changed if stripping white space would make it one."""
    if parse_choice(text.strip(), choices) is None:
        return text
    return f"(not a choice: {text!r})"


def _with_text(row: Response, canonicalize: Canonicalize | None) -> Response:
    """Returns a proposal that calls nothing with its text as what is compared; any other row as it is."""
    if row["error"] is not None or row.get("calls") != []:
        return row
    text = row["text"] if canonicalize is None else canonicalize(row["text"])
    as_text: Response = {**row, "answer": text, "calls": None}
    return {**row, "answer": compared_answer(as_text)}


def _clustered(
    state: CoEState,
    responses: Sequence[Response],
    labels: Sequence[int],
    former_labels: Mapping[str, int],
) -> dict[str, Any]:
    """Tells of the clusters, and returns the update of the state."""
    sizes = [count for _, count in sorted(Counter(labels).items())]
    event = events.Event(
        event="clustered", round=state["round"], n_clusters=len(sizes), sizes=sizes
    )
    events.emit(event)
    failures = [row for row in state["responses"] if row["error"] is not None]
    rows = Overwrite([*responses, *in_canonical_order(failures)])
    return {
        "responses": rows,
        "labels": list(labels),
        "former_labels": dict(former_labels),
        "unjudged": "",
    }


def _with_answers(responses: Sequence[Response], canonicalize: Canonicalize) -> list[Response]:
    """Returns the responses, with short answers for those without one; equal texts are read once."""
    unread = {row["text"] for row in responses if row["answer"] is None}
    answer_of = {text: canonicalize(text) for text in unread}
    with_answers: list[Response] = []
    for row in responses:
        text = row["text"]
        if row["answer"] is None and answer_of[text] != text:
            with_answers.append({**row, "answer": answer_of[text]})
        else:
            with_answers.append(row)
    return with_answers
