"""Owns what becomes of a proposal that a council withholds: what the driver reads of it, or the user."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from coe_agents.graph.nodes.finish import withheld_message
from coe_agents.middleware.deliberation import CouncilDecision
from coe_agents.middleware.reviewer import NOT_RUN
from coe_agents.text import for_log
from coe_agents.types import WITHHELD_MARK

MAX_NAME = 80
"""The most characters that are shown of a name that a model wrote."""
_SENT_BACK = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "tool_use",
    "tool_call",
    "function_call",
)
"""Blocks of a message that providers want back with the replies to its calls."""
_UNREPEATED = "Do not repeat the call unchanged."
_ROUNDING = 1e-9
"""Nats that are no disagreement."""


def refusal(decision: CouncilDecision) -> AIMessage:
    """Returns the message in place of an answer that is withheld; the reason says what is contested."""
    action = "escalate" if decision["action"] == "escalate" else "abstain"
    return withheld_message(action, _why(decision), id=str(uuid.uuid4()))


def block_calls(message: AIMessage, decision: CouncilDecision) -> list[AnyMessage]:
    """Returns the withheld message without its text, and for each of its calls a reply that says why it was not run.

    A call without an id, or with that of an earlier one, is given an id of its own: it would have no reply. So is one
    that cannot be read, which a provider is sent like any other. Reasoning stays: providers want back what they signed.
    """
    seen = set[str]()

    def with_own_id(call: Any, place: int) -> Any:
        id_ = call["id"]
        if not id_ or id_ in seen:
            id_ = f"call_{hashlib.sha256(f'{message.id} {place}'.encode()).hexdigest()[:24]}"
        seen.add(id_)
        return {**call, "id": id_}

    calls: list[ToolCall] = [
        with_own_id(call, place) for place, call in enumerate(message.tool_calls)
    ]
    unread = [
        with_own_id(call, len(calls) + place)
        for place, call in enumerate(message.invalid_tool_calls)
    ]
    changes = {
        "content": without_text(message.content),
        "tool_calls": calls,
        "invalid_tool_calls": unread,
    }
    is_judged = len(decision["failed_agents"]) < decision["n_asked"]
    advice = _UNREPEATED if is_judged else "No model judged the call: it may be repeated."
    replies = [not_run(call, _why(decision), advice=advice) for call in [*calls, *unread]]
    return [message.model_copy(update=changes), *replies]


def without_text(content: Any) -> Any:
    """Returns the content of a message without all that a reader could see: only reasoning and calls stay."""
    if isinstance(content, str):
        return ""
    return [
        block for block in content if isinstance(block, Mapping) and block.get("type") in _SENT_BACK
    ]


def is_refusal(message: ToolMessage) -> bool:
    """Returns whether a reply says that its call was not run."""
    return bool(message.response_metadata.get(NOT_RUN))


def without_withheld(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Returns a conversation as if no call had been withheld: without these calls, the texts beside them, and why."""
    shown = list[AnyMessage]()
    for place, message in enumerate(messages):
        if isinstance(message, AIMessage):
            replies = takewhile(lambda one: not isinstance(one, AIMessage), messages[place + 1 :])
            withheld = {
                one.tool_call_id
                for one in replies
                if isinstance(one, ToolMessage) and is_refusal(one)
            }
            calls = [call for call in message.tool_calls if call["id"] not in withheld]
            if withheld and calls:
                shown.append(AIMessage("", id=message.id, tool_calls=calls))
            if withheld:
                continue
        if not (isinstance(message, ToolMessage) and is_refusal(message)):
            shown.append(message)
    return shown


def not_run(
    call: Mapping[str, Any], why: str, *, advice: str = _UNREPEATED, artifact: Any = None
) -> ToolMessage:
    """Returns the reply to a call that was not run, with what the model should do."""
    name = for_log(call["name"] or "", limit=MAX_NAME)
    return ToolMessage(
        f"{name} was not run: {why}. {advice}".strip(),
        name=name,
        tool_call_id=call["id"] or "",
        status="error",
        artifact=artifact,
        response_metadata={NOT_RUN: True, WITHHELD_MARK: True},
    )


def contested_in_words(contested: Mapping[str, Any] | None) -> str:
    """Returns what proposals disagree about, without the values, which models wrote; "" if about nothing."""
    if contested is None:
        return ""
    parts = []
    if contested.get("call", 0.0) > _ROUNDING:
        parts.append("whether to call a tool")
    elif contested.get("tool", 0.0) > _ROUNDING:
        parts.append("which tool to call")
    if (argument := next(iter(contested.get("arguments") or ()), None)) is not None:
        parts.append(f'the argument "{for_log(str(argument), limit=MAX_NAME)}"')
        if paths := [
            path for path in contested.get("texts") or () if path.endswith(f".{argument}")
        ]:
            rule = f'ActionMatch(compare={{"{for_log(paths[0], limit=2 * MAX_NAME)}": Text()}})'
            parts[-1] += (
                f" (a text, compared exactly; {rule} ignores case, white space and final full stops)"
            )
    return " and ".join(parts)


def _why(decision: CouncilDecision) -> str:
    about = contested_in_words(decision["contested"])
    return (
        f"the models do not agree on {about}: {decision['reason']}" if about else decision["reason"]
    )
