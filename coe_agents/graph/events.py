"""Owns the events of a run, which `stream_mode="custom"` streams.

They contain no text of a response, since the gate decides which answers a user may see. Only an error's text and a
policy's reason come from outside; both are redacted as in the decision. Only the decision says which agent gave which
answer. The other stream modes ("updates", "values") are for operators, since the state holds every response.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from coe_agents.policy import Decision
from coe_agents.text import for_prompt
from coe_agents.types import Action, Uncertainty

_QUOTED = 20
"""So much of a response, and no more, is looked for in a reason."""
_QUOTES = "the decision has the reason, which quotes a response"


class AgentAsked(TypedDict):
    """The event "agent_asked": `agent` was sent its request in `round`, from 0; repeated at each retry."""

    event: Literal["agent_asked"]
    agent: str
    round: int


class AgentSampled(TypedDict):
    """The event "agent_sampled": `agent` has finished a `round`.

    Attributes:
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
    """The event "clustered": the responses of all rounds up to `round` form `n_clusters` clusters.

    Attributes:
        sizes: How many responses each cluster holds, in the order of the labels.
    """

    event: Literal["clustered"]
    round: int
    n_clusters: int
    sizes: list[int]


class Measured(Uncertainty):
    """The event "measured": the uncertainty after `round`; all of it is None where nothing could be measured.

    Attributes:
        divergence: "kl" or "js", in nats; "hellinger", "total_variation", or a function's name, without a unit.
    """

    event: Literal["measured"]
    round: int
    divergence: str | None


class Decided(TypedDict):
    """The event "decided": the `action` of `round` and the policy's `reason`; after "another_round" a round follows.

    A reason that quotes a response is replaced by a note.
    """

    event: Literal["decided"]
    round: int
    action: Action
    reason: str


class Ruled(TypedDict):
    """The event "ruled": the escalated case is decided, with an `action` in `round`, and by whom (`decided_by`).

    The reason may reveal the answer, so it is in the decision only.
    """

    event: Literal["ruled"]
    round: int
    action: Action
    decided_by: str


Event: TypeAlias = AgentAsked | AgentSampled | Clustered | Measured | Decided | Ruled

_LOG = logging.getLogger(__name__)


def emit(event: Event) -> None:
    """Writes the event to the stream, if there is one, and to the log at DEBUG."""
    _LOG.debug("%s", event)
    get_stream_writer()(event)


def emit_decision(round: int, decision: Decision, responses: Iterable[str]) -> None:
    """Emits `Decided` for this decision on these responses."""
    line = for_prompt(decision.reason, limit=len(decision.reason))
    reason = _QUOTES if any(_is_in(text, line) for text in dict.fromkeys(responses)) else decision.reason
    emit(Decided(event="decided", round=round, action=decision.action, reason=reason))


def _is_in(response: str, reason: str) -> bool:
    """Whether a reason on one line contains a response, or its beginning, as words of its own."""
    line = for_prompt(response, limit=len(response))
    start = line[:_QUOTED]
    if start.isascii() and reason.isascii() and start.lower() not in reason.lower():  # a pattern takes long to compile
        return False
    end = "" if len(line) > _QUOTED else r"(?!\w)"
    form = rf"(?<!\w){re.escape(start)}{end}"
    return bool(line) and re.search(form, reason, re.IGNORECASE) is not None


def start_sampling(agent: str, round: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Emits `AgentAsked`; returns a function that emits `AgentSampled` for the node's update and returns the update."""
    emit(AgentAsked(event="agent_asked", agent=agent, round=round))
    start = time.perf_counter()

    def finish_sampling(update: dict[str, Any]) -> dict[str, Any]:
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

    return finish_sampling
