"""Owns the events of a run, which `stream_mode="custom"` streams.

They contain no text of a response, since the gate decides which answers a user may see. Only an error's text and a
policy's reason come from outside; both are redacted as in the decision. Only the decision says which agent gave which
answer. The other stream modes ("updates", "values") are for operators, since the state holds every response.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Required

from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from coe_agents.policy import Decision
from coe_agents.text import for_prompt, quantity
from coe_agents.types import Action, Regime, Uncertainty

_QUOTED = 20
"""So much of a response, and no more, is looked for in a reason."""
_QUOTES = "the decision has the reason, which quotes a response"


class Event(TypedDict, total=False):
    """One event; it has the keys that its `event` names, and `round`, from 0.

    - "agent_asked": `agent` was sent its request; repeated at each retry.
    - "agent_sampled": `agent` has finished, with `n_responses`; if it failed, that is 0, and `error` the exception's
      type and message, as in `failed_agents`. The last attempt took `seconds`.
    - "clustered": the responses of all rounds so far form `n_clusters` clusters of these `sizes`, by label.
    - "measured": the keys of `coe_agents.types.Uncertainty`. All are None where nothing could be measured.
    - "decided": the `action`, and the policy's `reason`, or a note where it quotes a response. After "another_round" a
      round follows.
    - "ruled": the escalated case is decided, with an `action`, and by whom: `decided_by`. Its reason may reveal the
      answer, so it is in the decision only.
    """

    event: Required[
        Literal["agent_asked", "agent_sampled", "clustered", "measured", "decided", "ruled"]
    ]
    round: Required[int]
    agent: str
    n_responses: int
    seconds: float
    error: str | None
    n_clusters: int
    sizes: list[int]
    coe: float | None
    aleatoric: float | None
    epistemic: float | None
    regime: Regime | None
    action: Action
    reason: str
    decided_by: str


MEASURED = tuple(Uncertainty.__annotations__)
"""What the event "measured" tells of a measurement."""
_OF_AGENT = ("agent_asked", "agent_sampled")
"""The events that name an agent."""
_LOG = logging.getLogger(__name__)


def emit(event: Event) -> None:
    """Writes the event to the stream, if there is one, and to the log at DEBUG."""
    _LOG.debug("%s", event)
    get_stream_writer()(event)


def emit_decision(round: int, decision: Decision, responses: Collection[str]) -> None:
    """Emits "decided" for this decision on these responses, each once; empty ones are in no reason."""
    line = for_prompt(decision.reason, limit=len(decision.reason))
    reason = _QUOTES if any(_is_in(text, line) for text in responses) else decision.reason
    emit(Event(event="decided", round=round, action=decision.action, reason=reason))


def _is_in(response: str, reason: str) -> bool:
    """Whether a reason on one line contains a response, or its beginning, as words of its own."""
    line = for_prompt(response, limit=len(response))
    start = line[:_QUOTED]
    is_ascii = start.isascii() and reason.isascii()
    if is_ascii and start.lower() not in reason.lower():
        return False  # a pattern takes long to compile
    end = "" if len(line) > _QUOTED else r"(?!\w)"
    form = rf"(?<!\w){re.escape(start)}{end}"
    return bool(line) and re.search(form, reason, re.IGNORECASE) is not None


class Answering:
    """Says in words who has answered of the agents that are asked, of one question or of several at a time.

    Args:
        show: Is called with the words whenever they change.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._has_answered: dict[object, dict[str, bool]] = {}

    def note(self, event: object, question: object = None) -> None:
        """Takes what a run streams; what is no event of an agent changes nothing."""
        if not isinstance(event, Mapping) or event.get("event") not in _OF_AGENT:
            return
        agents = self._has_answered.setdefault(question, {})
        agents[event["agent"]] = event.get("n_responses", 0) > 0
        self._show(self._in_words())

    def end(self, question: object) -> None:
        """Leaves out a question that is decided."""
        self._has_answered.pop(question, None)
        self._show(self._in_words())

    def _in_words(self) -> str:
        answered: list[str] = []
        n_agents = 0
        for agents in self._has_answered.values():
            n_agents += len(agents)
            answered += [name for name, has_answered in agents.items() if has_answered]
        n_questions = len(self._has_answered)
        if n_questions == 0:
            return "asking"
        words = f"{len(answered)} of {quantity(n_agents, 'agent')} answered"
        if n_questions > 1:
            return f"{n_questions} questions are asked: {words}"
        return ": ".join(filter(None, (words, ", ".join(answered))))


def start_sampling(agent: str, round: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Emits "agent_asked"; returns a function that emits "agent_sampled" for the node's update, and returns it."""
    emit(Event(event="agent_asked", agent=agent, round=round))
    start = time.perf_counter()

    def finish_sampling(update: dict[str, Any]) -> dict[str, Any]:
        all_errors = [response["error"] for response in update["responses"]]
        errors = [error for error in all_errors if error is not None]
        event = Event(
            event="agent_sampled",
            agent=agent,
            round=round,
            n_responses=len(all_errors) - len(errors),
            seconds=time.perf_counter() - start,
            error=errors[0] if errors else None,
        )
        emit(event)
        return update

    return finish_sampling
