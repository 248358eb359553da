"""Owns what a run tells while it goes on: the events of `stream_mode="custom"`.

They are for whoever watches, and hold nothing of a response: what a user may see of an answer, the gate decides. Only
an error's text and a policy's reason come from outside, redacted as in the decision; who says what stands in the
decision alone. The other stream modes ("updates", "values") are for operators alone, since the state holds every
response.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer

from coe_agents.policy import Decision, Measurement
from coe_agents.types import Action, Regime


class AgentAsked(TypedDict):
    """An agent was sent its request; again at each retry of the graph's own.

    Attributes:
        event: "agent_asked".
        agent: Its name.
        round: The round, from 0; in every event.
    """

    event: Literal["agent_asked"]
    agent: str
    round: int


class AgentSampled(TypedDict):
    """An agent is done with a round.

    Attributes:
        event: "agent_sampled".
        agent: Its name.
        round: The round.
        n_responses: How many responses came; 0 if it failed.
        seconds: What the last attempt took.
        error: The exception's type and message if it failed, as in `failed_agents`.
    """

    event: Literal["agent_sampled"]
    agent: str
    round: int
    n_responses: int
    seconds: float
    error: str | None


class Clustered(TypedDict):
    """The responses of all rounds so far have their clusters.

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
    """The uncertainty is known; all None where nothing could be measured.

    Attributes:
        event: "measured".
        round: The round.
        coe: Collaborative Entropy, the sum of the next two.
        aleatoric: In nats.
        epistemic: In the unit of `divergence`.
        divergence: "kl" or "js", in nats; "hellinger" or "total_variation", without a unit.
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
        reason: The policy's, with its numbers.
    """

    event: Literal["decided"]
    round: int
    action: Action
    reason: str


class Ruled(TypedDict):
    """Whoever the case was escalated to has decided; the reason may tell of the answer, and is left to the decision.

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
    """Writes the event to the stream, if anybody listens, and to the log at DEBUG."""
    _LOG.debug("%s", event)
    get_stream_writer()(event)


def told(sample: _Sample, agent: str) -> _Sample:
    """Returns an agent's node that tells when it is asked and when it is done."""

    def sample_and_tell(request: Any, config: RunnableConfig) -> dict[str, Any]:
        done = _asked(agent, request["round"])
        return done(sample(request, config))

    return sample_and_tell


def atold(asample: _ASample, agent: str) -> _ASample:
    """Returns the same of an asynchronous node."""

    async def sample_and_tell(request: Any, config: RunnableConfig) -> dict[str, Any]:
        done = _asked(agent, request["round"])
        return done(await asample(request, config))

    return sample_and_tell


def clustered(round: int, labels: Sequence[int]) -> Clustered:
    """Returns the event of these labels.

    Example:
        >>> clustered(0, [0, 1, 0])["sizes"]
        [2, 1]
    """
    sizes = Counter(labels)
    return Clustered(
        event="clustered", round=round, n_clusters=len(sizes), sizes=[sizes[label] for label in sorted(sizes)]
    )


def measured(round: int, measurement: Measurement | None) -> Measured:
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


def decided(round: int, decision: Decision) -> Decided:
    """Returns the event of this decision."""
    return Decided(event="decided", round=round, action=decision.action, reason=decision.reason)


def ruled(round: int, verdict: Mapping[str, Any]) -> Ruled:
    """Returns the event of this verdict."""
    return Ruled(event="ruled", round=round, action=verdict["action"], decided_by=verdict["decided_by"])


def _asked(agent: str, round: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Tells that the agent is asked; what is returned takes the node's update, tells of it, and gives it back."""
    emit(AgentAsked(event="agent_asked", agent=agent, round=round))
    start = time.perf_counter()

    def done(update: dict[str, Any]) -> dict[str, Any]:
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

    return done
