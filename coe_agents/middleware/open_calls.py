"""Owns the calls of a conversation that nothing has replied to: those to be judged, and those to be closed."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime

from coe_agents.middleware.verdict import VERDICTS, Verdict, last_reply
from coe_agents.middleware.withheld import not_run

DUPLICATES = "coe_duplicates"
"""The key of the agent's private state that holds the new ids of calls that had the id of an earlier one."""
_INVENTED = "do-not-render-"
"""How the ids begin of the replies that Agent Chat UI adds to calls without one: "Successfully handled tool call."."""


class ProposedCalls:
    """The calls of the model's last message that nothing has replied to yet, each with an id of its own.

    Attributes:
        reply: The message; before there is one, an empty message.
        calls: Its calls without a reply.
        duplicates: The new ids of gated calls that had the id of an earlier call.
        is_changed: Whether the message is not the one in the state.
    """

    def __init__(self, state: Mapping[str, Any], gates: Callable[[str], bool]) -> None:
        """Reads them from the state; an id that a gated call shares stays with the first call that has it.

        An ungated call that loses it still runs, and a gated one does not. `gates` tells them apart by their tools.
        """
        self._state = state
        self.is_changed = False
        self.calls = list[ToolCall]()
        self.duplicates = list[str]()
        place, self.reply = last_reply(state["messages"])
        answered = set[str]()
        for message in state["messages"][place + 1 :]:
            if isinstance(message, ToolMessage):
                answered.add(message.tool_call_id)

        known_duplicates = state.get(DUPLICATES, ())
        ids_of_gated = set[str | None]()
        for call in self.reply.tool_calls:
            if call["id"] in answered:
                continue
            self.calls.append(call)
            if call["id"] and call["id"] in known_duplicates:
                self.duplicates.append(call["id"])
            if gates(call["name"]):
                ids_of_gated.add(call["id"])
        self.replace(self._rename_shared(ids_of_gated, gates))

    def _rename_shared(
        self, ids_of_gated: set[str | None], gates: Callable[[str], bool]
    ) -> dict[str, ToolCall]:
        """Returns the calls that are given an id of their own, by their place in the message."""
        seen = set[str | None]()
        renamed = dict[str, ToolCall]()
        for index, call in enumerate(self.reply.tool_calls):
            id_ = call["id"]
            if id_ and id_ in seen and id_ in ids_of_gated:
                # deterministic: a resumed run repeats this
                identity = f"{self.reply.id} {index} {id_}"
                digest = hashlib.sha256(identity.encode(errors="replace")).hexdigest()
                id_ = f"call_{digest[:24]}"
                renamed[str(index)] = {**call, "id": id_}
                if gates(call["name"]):
                    self.duplicates.append(id_)
            seen.add(id_)
        return renamed

    def replace(self, calls: Mapping[str, ToolCall]) -> None:
        """Replaces the calls at these places of the message; each a number, as a key of JSON."""
        if not calls:
            return
        unanswered = {call["id"] for call in self.calls}
        after = []
        for index, call in enumerate(self.reply.tool_calls):
            now = calls.get(str(index), call)
            if now != call:
                unanswered.add(now["id"])
            after.append(now)
        self.reply = self.reply.model_copy(update={"tool_calls": after})
        self.calls = [call for call in after if call["id"] in unanswered]
        self.is_changed = True

    def request(
        self,
        call: ToolCall,
        runtime: Runtime[Any],
        verdicts: Mapping[str, dict[str, Verdict]] | None = None,
    ) -> ToolCallRequest:
        """Returns the request for one of the calls, as it would reach its tool; `verdicts` take the state's place."""
        messages = []
        for message in self._state["messages"]:
            is_replaced = self.is_changed and message.id == self.reply.id
            messages.append(self.reply if is_replaced else message)
        state: dict[str, Any] = {**self._state, "messages": messages}
        if verdicts is not None:
            state[VERDICTS] = verdicts
        return create_tool_request(call, state, runtime)


def create_tool_request(
    call: ToolCall, state: dict[str, Any], runtime: Runtime[Any], tool: BaseTool | None = None
) -> ToolCallRequest:
    """Returns the request for a call, as it would reach its tool."""
    tool_runtime = ToolRuntime(
        state=state,
        context=runtime.context,
        config=get_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
    )
    return ToolCallRequest(tool_call=call, tool=tool, state=state, runtime=tool_runtime)


def close_calls(
    messages: Sequence[AnyMessage], gates: Callable[[str | None], bool]
) -> dict[str, Any] | None:
    """Returns the update that gives each call before a later message of the user a reply; None if all have one.

    The user wrote that message instead of deciding on the calls. Without a reply to each call a model's provider
    refuses the conversation, and the thread could not continue. A reply to a gated call that a chat interface invented,
    which says that it was handled, is replaced: it did not run.
    """
    last = -1
    answered = set[str | None]()
    for place, message in enumerate(messages):
        if isinstance(message, HumanMessage):
            last = place
        elif isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)

    closed: list[AnyMessage] = []
    for place, message in enumerate(messages):
        is_invented = (message.id or "").startswith(_INVENTED)
        if is_invented and isinstance(message, ToolMessage) and gates(message.name):
            # under another id, it is shown
            closed.append(_not_decided({"name": message.name, "id": message.tool_call_id}))
        else:
            closed.append(message)
        if isinstance(message, AIMessage) and place < last:
            for call in message.tool_calls:
                if call["id"] not in answered:
                    closed.append(_not_decided(call))
    if closed == list(messages):
        return None
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *closed]}


def _not_decided(call: Mapping[str, Any]) -> ToolMessage:
    return not_run(call, "the user wrote another message instead of deciding on it", advice="")
