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
        reply: The message; None before there is one.
        calls: Its calls without a reply.
        duplicates: The new ids of gated calls that had the id of an earlier call.
        is_changed: Whether the message is not the one in the state.
    """

    def __init__(self, state: Mapping[str, Any], gates: Callable[[str], bool]) -> None:
        """Reads them from the state; an id that a gated call shares stays with the first call that has it.

        An ungated call that loses it still runs, and a gated one does not. `gates` tells them apart by their tools.
        """
        self._state, self.is_changed = state, False
        self.reply: AIMessage | None = None
        self.calls, self.duplicates = list[ToolCall](), list[str]()
        if (found := last_reply(state["messages"])) is None:
            return
        place, self.reply = found
        after, known = state["messages"][place + 1 :], state.get("coe_duplicates", ())
        answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
        self.calls = [call for call in self.reply.tool_calls if call["id"] not in answered]
        self.duplicates = [call["id"] for call in self.calls if call["id"] and call["id"] in known]
        shared = {call["id"] for call in self.calls if gates(call["name"])}
        seen, renamed = set[str | None](), dict[str, ToolCall]()
        for index, call in enumerate(self.reply.tool_calls):
            id_ = call["id"]
            if id_ and id_ in seen & shared:
                # deterministic: a resumed run repeats this
                digest = hashlib.sha256(
                    f"{self.reply.id} {index} {id_}".encode(errors="replace")
                ).hexdigest()
                id_ = f"call_{digest[:24]}"
                renamed[str(index)] = {**call, "id": id_}
                if gates(call["name"]):
                    self.duplicates.append(id_)
            seen.add(id_)
        self.replace(renamed)

    def replace(self, calls: Mapping[str, ToolCall]) -> None:
        """Replaces the calls at these places of the message; each a number, as a key of JSON."""
        if self.reply is None or not calls:
            return
        former = self.reply.tool_calls
        now = [calls.get(str(index), call) for index, call in enumerate(former)]
        ids = {call["id"] for call in self.calls}
        changed = {new["id"] for new, old in zip(now, former, strict=True) if new != old}
        self.reply = self.reply.model_copy(update={"tool_calls": now})
        self.calls = [call for call in now if call["id"] in ids | changed]
        self.is_changed = True

    def request(
        self,
        call: ToolCall,
        runtime: Runtime[Any],
        verdicts: Mapping[str, dict[str, Verdict]] | None = None,
    ) -> ToolCallRequest:
        """Returns the request for one of the calls, as it would reach its tool; `verdicts` take the state's place."""
        messages = self._state["messages"]
        if self.is_changed and self.reply is not None:
            messages = [
                self.reply if message.id == self.reply.id else message for message in messages
            ]
        state: dict[str, Any] = {**self._state, "messages": messages}
        if verdicts is not None:
            state[VERDICTS] = verdicts
        return ToolCallRequest(
            tool_call=call,
            tool=None,
            state=state,
            runtime=ToolRuntime(
                state=state,
                context=runtime.context,
                config=get_config(),
                stream_writer=runtime.stream_writer,
                tool_call_id=call["id"],
                store=runtime.store,
            ),
        )


def close_calls(
    messages: Sequence[AnyMessage], gates: Callable[[str | None], bool]
) -> dict[str, Any] | None:
    """Returns the update that gives each call before a later message of the user a reply; None if all have one.

    The user wrote that message instead of deciding on the calls. Without a reply to each call a model's provider
    refuses the conversation, and the thread could not continue. A reply to a gated call that a chat interface invented,
    which says that it was handled, is replaced: it did not run.
    """
    last = max(
        (place for place, message in enumerate(messages) if isinstance(message, HumanMessage)),
        default=-1,
    )
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    closed: list[AnyMessage] = []
    for place, message in enumerate(messages):
        if (
            isinstance(message, ToolMessage)
            and gates(message.name)
            and (message.id or "").startswith(_INVENTED)
        ):
            closed.append(
                _not_decided({"name": message.name, "id": message.tool_call_id})
            )  # under another id, it is shown
            continue
        closed.append(message)
        if isinstance(message, AIMessage) and place < last:
            closed += [
                _not_decided(call) for call in message.tool_calls if call["id"] not in answered
            ]
    if closed == list(messages):
        return None
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *closed]}


def _not_decided(call: Mapping[str, Any]) -> ToolMessage:
    return not_run(call, "the user wrote another message instead of deciding on it", advice="")
