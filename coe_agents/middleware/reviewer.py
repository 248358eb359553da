"""Owns what the group is shown of a tool call or an answer."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from pydantic import BaseModel

from coe_agents.agents.requests.endings import IN_WORDS, Ending
from coe_agents.clustering.answers import parse_choice
from coe_agents.middleware.verdict import (
    Verdict,
    call_as_json,
    create_unmeasured,
    last_reply,
    too_long,
)
from coe_agents.prompts import (
    MAX_REVIEWED,
    REVIEW_CHOICES,
    ShownCall,
    review_answer,
    review_tool_call,
    shown_call,
)
from coe_agents.text import visible

EXECUTED = "coe_executed"
"""The key of a tool message's `response_metadata` that holds the call that ran, where a person had edited it."""
NOT_RUN = "coe_not_run"
"""The key of a tool message's `response_metadata` that marks an answer of the gate in the tool's place."""

_READABLE = ("text", "reasoning", "thinking", "redacted_thinking")
"""The types of content blocks whose JSON shows everything in them."""

_REASONING = "reasoning_content"
"""The key of a message's `additional_kwargs` in which many models give their reasoning; it is shown."""


def about_call(
    request: ToolCallRequest, approved: Collection[str | None] = (), *, include_results: bool
) -> str | Verdict:
    """Returns the question about a tool call, or a verdict if it is too long; `approved`: ids of calls that may run."""
    call = request.tool_call
    messages = request.state["messages"]
    arguments = _no_verdict(call_as_json(call["args"]))
    made, others, is_repetition = _beside(call, messages, approved, include_results=include_results)
    n_chars = len(visible(arguments))
    for beside in (*made, *others):
        n_chars += len(shown_call(beside))
    if n_chars > MAX_REVIEWED:
        return too_long(n_chars)
    return review_tool_call(
        call["name"],
        arguments,
        _conversation(messages),
        made=made,
        others=others,
        is_repetition=is_repetition,
    )


def about_answer(
    reply: AIMessage,
    structured: Any,
    messages: Sequence[AnyMessage],
    after: Sequence[AnyMessage] = (),
    *,
    ending: Ending,
) -> str | Verdict:
    """Returns the question about a final answer, or a verdict if the group cannot be shown all of it.

    `reply` holds the text, `structured` the structured answer if there is one, `messages` what came before, `after` the
    results of the calls that were made together with it; they end the run, and are shown whole. `ending` is how the
    reply ended.
    """
    if ending in ("filtered", "error"):
        reason = f"the answer does not count: {IN_WORDS[ending]}"
        return create_unmeasured("uncertain", reason)
    replies = replies_to(after)
    shown_whole: list[AnyMessage] = [reply, *replies.values()]
    for message in shown_whole:
        hidden = _hidden_blocks(message) or _hidden_extras(message)
        if hidden:
            what = "the answer" if message is reply else "a result beside the answer"
            reason = f"{what} holds {hidden}, which the group is not shown"
            return create_unmeasured("uncertain", reason)

    text = _whole_text(reply)
    if structured is not None:
        text = f"{structured_text(structured)}\n{text}".strip()
    answer = _no_verdict(text)
    n_chars = len(visible(answer))
    made = []
    for call in reply.tool_calls:
        result = replies.get(call["id"])
        if result is not None:
            shown = _made(call, result, text=_whole_text(result))
            made.append(shown)
            n_chars += len(visible(f"{shown.arguments}{shown.result}"))
    if n_chars > MAX_REVIEWED:
        return too_long(n_chars)
    return review_answer(answer, _conversation(messages), made=made)


def _no_verdict(shown: str) -> str:
    """Returns JSON that reads as a verdict as equal JSON that does not, so that a judge may repeat it."""
    if parse_choice(shown, REVIEW_CHOICES) is None:
        return shown

    def escape(letter: re.Match[str]) -> str:
        return f"\\u{ord(letter[0]):04x}"

    return re.sub(r'(?<=")[ar](?=pprove|eject)', escape, shown, flags=re.I)


def _beside(
    call: ToolCall,
    messages: Sequence[AnyMessage],
    approved: Collection[str | None],
    *,
    include_results: bool,
) -> tuple[list[ShownCall], list[ShownCall], bool]:
    """Returns the calls made in this turn, those of the same message, and whether the call repeats one of them."""
    turn = _turn(messages)
    last, _ = last_reply(turn)
    made: list[ShownCall] = []
    others: list[ShownCall] = []
    repeatable: list[Any] = []
    for place, message in enumerate(turn):
        if not isinstance(message, AIMessage):
            continue
        replies = replies_to(turn[place + 1 :])
        status = "earlier"
        for other in message.tool_calls:
            if place == last and other["id"] == call["id"]:
                status = "later"
                continue
            reply = replies.get(other["id"])
            if reply is None:
                shown = _shown(other, status)
                others.append(shown)
            else:
                shown = _made(other, reply, text=str(reply.text) if include_results else None)
                made.append(shown)
            # one that stands later may have been approved before this one was edited
            is_approved = place == last and other["id"] in approved
            if is_approved or shown.status in ("run", "failed", "earlier"):
                repeatable.append((shown.name, _comparable(json.loads(shown.arguments))))
    return made, others, (call["name"], _comparable(call["args"])) in repeatable


def _turn(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Returns the messages since the last one of the user.

    A message of type "human" beside the results of tools is not the user's: a tool, or a middleware, added it.
    """
    start = 0
    is_added = False
    for place, message in enumerate(messages):
        if isinstance(message, AIMessage):
            is_added = bool(replies_to(messages[place + 1 :]))
        elif _is_of_user(message) and not is_added:
            start = place + 1
    return messages[start:]


def replies_to(after: Sequence[AnyMessage]) -> dict[str | None, ToolMessage]:
    """Returns the tool messages before the model's next message, by the id of their call."""
    replies: dict[str | None, ToolMessage] = {}
    for message in after:
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            replies[message.tool_call_id] = message
    return replies


def _shown(call: ToolCall | Mapping[str, Any], status: Any, result: str | None = None) -> ShownCall:
    return ShownCall(status, call["name"], call_as_json(call["args"]), result)


def _made(call: ToolCall, reply: ToolMessage, *, text: str | None) -> ShownCall:
    if reply.response_metadata.get(NOT_RUN):
        return _shown(call, "blocked")
    status = "failed" if reply.status == "error" else "run"
    executed = reply.response_metadata.get(EXECUTED, call)
    return _shown(executed, status, text)


def _comparable(value: Any) -> Any:
    """Returns JSON data in which equal numbers are equal, texts of numbers too: 10.0, 10 and "10"."""
    if isinstance(value, dict):
        return {str(key): _comparable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    if isinstance(value, bool):
        return (value,)  # True would equal 1
    if not isinstance(value, int | float | str):
        return value
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return value
    return number if number.is_finite() else repr(value)


def _conversation(messages: Sequence[AnyMessage]) -> list[tuple[str, str]]:
    """Returns the messages of users and the assistant, without tool results, which anyone may have written."""
    conversation = []
    for message in messages:
        if not isinstance(message, AIMessage) and not _is_of_user(message):
            continue
        text = message.text.strip()
        hidden = _hidden_blocks(message)
        if hidden:
            text = f"{text} ({hidden}: not shown)".strip()
        if text:
            role = "user" if isinstance(message, HumanMessage) else "assistant"
            conversation.append((role, text))
    return conversation


def _is_of_user(message: AnyMessage) -> bool:
    """Returns whether a message is the user's; LangChain writes some itself, such as a summary with tools' results."""
    return isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")


def _hidden_blocks(message: AnyMessage) -> str:
    """Returns the names of the content blocks that a text cannot show; calls are judged separately."""
    if isinstance(message.content, str):
        return ""
    kinds = {str(block.get("type")) for block in message.content if isinstance(block, dict)}
    hidden = sorted(kinds - {*_READABLE, "tool_use", "tool_call", "function_call"})
    return ", ".join(f'a block of type "{kind}"' for kind in hidden)


def _hidden_extras(reply: AnyMessage) -> str:
    """Names what a message holds beside its content and the group is not shown, such as audio or a refusal."""
    extras = []
    for key, value in sorted(reply.additional_kwargs.items()):
        if value and key not in (_REASONING, "tool_calls", "function_call"):
            extras.append(f'"{key}"')
    if not extras:
        return ""
    return f"{', '.join(extras)} beside its content"


def _whole_text(reply: AnyMessage) -> str:
    """Returns everything that a message shows: its text, or its blocks as JSON if they hold more than text."""
    text = str(reply.text)
    if not isinstance(reply.content, str) and not all(map(_is_text, reply.content)):
        text = json.dumps(reply.content, ensure_ascii=False)
    reasoning = reply.additional_kwargs.get(_REASONING)
    if reasoning:
        text += f"\n{json.dumps({_REASONING: reasoning}, ensure_ascii=False)}"
    return text


def _is_text(block: str | Mapping[str, Any]) -> bool:
    if isinstance(block, str):
        return True
    return block.get("type") == "text" and set(block) <= {"type", "text", "id", "index"}


def structured_text(structured: Any) -> str:
    """Returns all that a structured answer holds: its `repr` may omit fields, and so may its own JSON."""
    return f"{structured!r}\n{json.dumps(structured, ensure_ascii=False, default=_fields)}"


def _fields(value: Any) -> Any:
    """Returns the fields of a model or a data class by name; any other value as text."""
    names: list[str]
    if isinstance(value, BaseModel):
        stated = dict(value)
        names = [*type(value).model_computed_fields]
    elif is_dataclass(value):
        stated = {}
        names = [field.name for field in fields(value)]
    else:
        return repr(value)
    for name in names:
        stated[name] = getattr(value, name)
    return stated
