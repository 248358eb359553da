"""Owns the node that gives each response a cluster."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.types import Overwrite

from coe_agents.clustering import Clusterer, cluster_responses
from coe_agents.errors import ClusteringError, CoEError
from coe_agents.graph import events
from coe_agents.graph.forms import TwoForms
from coe_agents.graph.rounds import before, counted
from coe_agents.graph.state import CoEState
from coe_agents.policy.measurement import response_text
from coe_agents.redaction import is_told, redacted, secrets_of
from coe_agents.rounds import former_answers
from coe_agents.types import Response, in_canonical_order, usable

Canonicalize = Callable[[str], str]


def cluster_node(clusterer: Clusterer, canonicalize: Canonicalize | None) -> TwoForms:
    """Returns the node that gives each response a cluster.

    It also puts the responses in canonical order, failures last, so that `labels[i]` belongs to `responses[i]`.
    """

    def cluster(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        # an agent that is found out late, by a request for more, has said nothing before either
        excluded = counted(state, "not")
        given = [row for row in usable(state["responses"]) if row["agent"] not in excluded]
        responses = _with_answers(given, canonicalize)
        texts = [response_text(response) for response in responses]
        # last, so that they open no cluster that a response could join, and never measured
        former = former_answers(next(reversed(before(state)), None))
        try:
            labels = cluster_responses([*texts, *former], question=state["asked"], clusterer=clusterer)
        except GraphBubbleUp:
            raise
        except Exception as error:
            _raise_without_secrets(error, clusterer)
            raise
        former_labels = dict(zip(former, labels[len(texts) :], strict=True))
        failures = in_canonical_order([response for response in state["responses"] if response["error"] is not None])
        rows = Overwrite([*responses, *failures])
        events.emit(events.clustered(state["round"], labels[: len(texts)]))
        return {"responses": rows, "labels": labels[: len(texts)], "former_labels": former_labels}

    async def acluster(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        return await asyncio.to_thread(cluster, state, config)

    return TwoForms(cluster, acluster, name="cluster")


def _raise_without_secrets(error: Exception, clusterer: Clusterer) -> None:
    """Raises an error of a model's client, or one that tells its key, as ours; other errors stand."""
    secrets = secrets_of(clusterer)
    is_secret = is_told(error, secrets)
    if is_secret or not isinstance(error, CoEError | ValueError | TypeError | ImportError | OSError):
        message = redacted(f"the responses could not be clustered: {type(error).__name__}: {error}", secrets)
        hint = 'Check the model that the clusterer asks; "coe-agents doctor" tries it alone'
        raise ClusteringError(message, hint=hint) from None if is_secret else error


def _with_answers(responses: Sequence[Response], canonicalize: Canonicalize | None) -> list[Response]:
    """Returns the responses with the short answers of those that have none yet; equal texts are read once."""
    if canonicalize is None:
        return list(responses)
    unread = dict.fromkeys(response["text"] for response in responses if response["answer"] is None)
    found = {text: answer for text in unread if (answer := canonicalize(text)) != text}
    return [
        {**response, "answer": found[response["text"]]}
        if response["answer"] is None and response["text"] in found
        else response
        for response in responses
    ]
