"""Owns the repair of a conversation in which the user wrote another message instead of deciding on calls.

Without a reply to each call a model's provider refuses the conversation, and the thread could not continue. A chat
interface may have added replies of its own that say that the calls were handled: the gated ones did not run.
"""

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolCall, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from coe_agents.middleware.withheld import not_run

_INVENTED = "do-not-render-"
"""How the ids begin of the replies that Agent Chat UI adds to calls without one: "Successfully handled tool call."."""


def close_calls(messages: Sequence[AnyMessage], gated: Collection[str]) -> dict[str, Any] | None:
    """Returns the update that gives each call before a later message of the user a reply; None if all have one.

    A reply to a gated call that a chat interface invented is replaced.
    """
    last = max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    closed: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage) and message.name in gated and (message.id or "").startswith(_INVENTED):
            closed.append(_not_decided(message.name or "", message.tool_call_id))  # under another id, it is shown
            continue
        closed.append(message)
        if isinstance(message, AIMessage) and place < last:
            open_calls: list[ToolCall] = [call for call in message.tool_calls if call["id"] not in answered]
            closed += [_not_decided(call["name"], call["id"] or "") for call in open_calls]
    if closed == list(messages):
        return None
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *closed]}


def _not_decided(name: str, call_id: str) -> ToolMessage:
    return not_run(name, call_id, "the user wrote another message instead of deciding on it", advice="")
