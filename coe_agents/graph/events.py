"""Owns the events of a run, which `stream_mode="custom"` streams.

They contain no text of a response, since the gate decides which answers a user may see. Only an error's text and a
policy's reason come from outside; both are redacted as in the decision. Only the decision says which agent gave which
answer. The other stream modes ("updates", "values") are for operators, since the state holds every response.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from coe_agents.policy import Decision, Measurement
from coe_agents.prompts import quote
from coe_agents.types import Action, Regime

_QUOTED = 20
"""So much of a response, and no more, is looked for in a reason."""
_QUOTES = "the decision has the reason, which quotes a response"


class AgentAsked(TypedDict):
    """An agent was sent its request; repeated at each retry by the graph.

    Attributes:
        event: "agent_asked".
        agent: Its name.
        round: The round, from 0, as in every event.
    """

    event: Literal["agent_asked"]
    agent: str
    round: int


class AgentSampled(TypedDict):
    """An agent has finished a round.

    Attributes:
        event: "agent_sampled".
        agent: Its name.
        round: The round.
        n_responses: How many responses it gave; 0 if it failed.
        seconds: How long the last attempt took.
        error: The exception's type and message if it failed, as in `failed_agents`.
    """

    event: Literal["agent_sampled"]
    agent: str
    round: int
    n_responses: int
    seconds: float
    error: str | None


class Clustered(TypedDict):
    """The responses of all rounds so far are clustered.

    Attributes:
        event: "clustered".
        round: The round.
        n_clusters: How many there are.
        sizes: How many responses each holds, in the order of the labels.
    """

    event: Literal["clustered"]
    round: int
    n_clusters: int
    sizes: list[int]


class Measured(TypedDict):
    """The uncertainty is measured; every number is None where nothing could be measured.

    Attributes:
        event: "measured".
        round: The round.
        coe: Collaborative Entropy, the sum of the next two.
        aleatoric: In nats.
        epistemic: In the unit of `divergence`.
        divergence: "kl" or "js", in nats; "hellinger", "total_variation", or a function's name, without a unit.
        regime: "consensus", "conflict", "ambiguous" or "unknown".
    """

    event: Literal["measured"]
    round: int
    coe: float | None
    aleatoric: float | None
    epistemic: float | None
    divergence: str | None
    regime: Regime | None


class Decided(TypedDict):
    """The round's decision; another round follows where `action` is "another_round".

    Attributes:
        event: "decided".
        round: The round.
        action: "answer", "abstain", "escalate" or "another_round".
        reason: The policy's, with its numbers; a note in its place if it quotes a response.
    """

    event: Literal["decided"]
    round: int
    action: Action
    reason: str


class Ruled(TypedDict):
    """The escalated case is decided; the reason may reveal the answer, so it is in the decision only.

    Attributes:
        event: "ruled".
        round: The round.
        action: "answer", "abstain" or "escalate".
        decided_by: Who decided, as in the decision.
    """

    event: Literal["ruled"]
    round: int
    action: Action
    decided_by: str


Event: TypeAlias = AgentAsked | AgentSampled | Clustered | Measured | Decided | Ruled

_LOG = logging.getLogger(__name__)

_Sample: TypeAlias = Callable[[Any, RunnableConfig], dict[str, Any]]
_ASample: TypeAlias = Callable[[Any, RunnableConfig], Awaitable[dict[str, Any]]]


def emit(event: Event) -> None:
    """Writes the event to the stream, if there is one, and to the log at DEBUG."""
    _LOG.debug("%s", event)
    get_stream_writer()(event)


def with_events(sample: _Sample, agent: str) -> _Sample:
    """Returns an agent's node that emits `AgentAsked` before and `AgentSampled` after it."""

    def sample_with_events(request: Any, config: RunnableConfig) -> dict[str, Any]:
        finish = _start(agent, request["round"])
        return finish(sample(request, config))

    return sample_with_events


def awith_events(asample: _ASample, agent: str) -> _ASample:
    """Returns the same for an asynchronous node."""

    async def sample_with_events(request: Any, config: RunnableConfig) -> dict[str, Any]:
        finish = _start(agent, request["round"])
        return finish(await asample(request, config))

    return sample_with_events


def clustering_event(round: int, labels: Sequence[int]) -> Clustered:
    """Returns the event of these labels.

    Example:
        >>> clustering_event(0, [0, 1, 0])["sizes"]
        [2, 1]
    """
    sizes = Counter(labels)
    return Clustered(
        event="clustered", round=round, n_clusters=len(sizes), sizes=[sizes[label] for label in sorted(sizes)]
    )


def measurement_event(round: int, measurement: Measurement | None) -> Measured:
    """Returns the event of this measurement."""
    if measurement is None:
        return Measured(
            event="measured", round=round, coe=None, aleatoric=None, epistemic=None, divergence=None, regime=None
        )
    return Measured(
        event="measured",
        round=round,
        coe=measurement.coe,
        aleatoric=measurement.aleatoric,
        epistemic=measurement.epistemic,
        divergence=measurement.divergence,
        regime=measurement.regime,
    )


def decision_event(round: int, decision: Decision, responses: Iterable[str]) -> Decided:
    """Returns the event of this decision on these responses."""
    reason = _QUOTES if any(_is_in(text, decision.reason) for text in responses) else decision.reason
    return Decided(event="decided", round=round, action=decision.action, reason=reason)


def _is_in(response: str, reason: str) -> bool:
    """Whether a reason contains a response, or its beginning, as words of its own."""
    line = quote(response, limit=len(response))
    end = "" if len(line) > _QUOTED else r"(?!\w)"
    form = rf"(?<!\w){re.escape(line[:_QUOTED])}{end}"
    return bool(line) and re.search(form, quote(reason, limit=len(reason)), re.IGNORECASE) is not None


def ruling_event(round: int, verdict: Mapping[str, Any]) -> Ruled:
    """Returns the event of this verdict."""
    return Ruled(event="ruled", round=round, action=verdict["action"], decided_by=verdict["decided_by"])


def _start(agent: str, round: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Emits `AgentAsked`; returns a function that emits `AgentSampled` for the node's update and returns the update."""
    emit(AgentAsked(event="agent_asked", agent=agent, round=round))
    start = time.perf_counter()

    def finish(update: dict[str, Any]) -> dict[str, Any]:
        errors = [response["error"] for response in update["responses"] if response["error"] is not None]
        event = AgentSampled(
            event="agent_sampled",
            agent=agent,
            round=round,
            n_responses=len(update["responses"]) - len(errors),
            seconds=time.perf_counter() - start,
            error=errors[0] if errors else None,
        )
        emit(event)
        return update

    return finish
