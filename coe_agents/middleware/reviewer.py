"""Owns what the group is shown of a tool call or an answer."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from itertools import takewhile
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from pydantic import BaseModel

from coe_agents.agents.requests.endings import IN_WORDS, judge_end
from coe_agents.clustering.answers import parse_choice
from coe_agents.middleware.verdict import Verdict, call_as_json, create_unmeasured, too_long
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
    call, messages = request.tool_call, request.state["messages"]
    arguments = _no_verdict(call_as_json(call["args"]))
    made, others, is_repetition = _beside(call, messages, approved, include_results=include_results)
    n_chars = len(visible(arguments)) + sum(len(shown_call(one)) for one in (*made, *others))
    if n_chars > MAX_REVIEWED:
        return too_long(n_chars)
    conversation = _conversation(messages)
    return review_tool_call(
        call["name"], arguments, conversation, made=made, others=others, is_repetition=is_repetition
    )


def about_answer(
    reply: AIMessage,
    structured: Any,
    messages: Sequence[AnyMessage],
    after: Sequence[AnyMessage] = (),
) -> str | Verdict:
    """Returns the question about a final answer, or a verdict if the group cannot be shown all of it.

    `reply` holds the text, `structured` the structured answer if there is one, `messages` what came before, `after` the
    results of the calls that were made together with it; they end the run, and are shown whole.
    """
    if judge_end(reply) == "filtered":
        return create_unmeasured("uncertain", f"the answer does not count: {IN_WORDS['filtered']}")
    replies = _replies(after)
    shown: list[AnyMessage] = [reply, *replies.values()]
    for message in shown:
        if hidden := _hidden_blocks(message) or _hidden_extras(message):
            what = "the answer" if message is reply else "a result beside the answer"
            return create_unmeasured(
                "uncertain", f"{what} holds {hidden}, which the group is not shown"
            )
    text = _whole_text(reply)
    answer = _no_verdict(
        text if structured is None else f"{structured_text(structured)}\n{text}".strip()
    )
    made = [
        _made(call, replies[call["id"]], result=_whole_text(replies[call["id"]]))
        for call in reply.tool_calls
        if call["id"] in replies
    ]
    n_chars = len(visible(answer)) + sum(
        len(visible(f"{one.arguments}{one.result}")) for one in made
    )
    if n_chars > MAX_REVIEWED:
        return too_long(n_chars)
    return review_answer(answer, _conversation(messages), made=made)


def _no_verdict(shown: str) -> str:
    """Returns JSON that reads as a verdict as equal JSON that does not, so that a judge may repeat it."""
    if parse_choice(shown, REVIEW_CHOICES) is None:
        return shown
    return re.sub(
        r'(?<=")[ar](?=pprove|eject)', lambda found: f"\\u{ord(found[0]):04x}", shown, flags=re.I
    )


def _beside(
    call: ToolCall,
    messages: Sequence[AnyMessage],
    approved: Collection[str | None],
    *,
    include_results: bool,
) -> tuple[list[ShownCall], list[ShownCall], bool]:
    """Returns the calls made in this turn, those of the same message, and whether the call repeats one of them."""
    turn = _turn(messages)
    last = max(
        (place for place, message in enumerate(turn) if isinstance(message, AIMessage)), default=-1
    )
    made: list[ShownCall] = []
    others: list[ShownCall] = []
    repeatable: list[Any] = []
    for place, message in enumerate(turn):
        if not isinstance(message, AIMessage):
            continue
        replies = _replies(turn[place + 1 :])
        is_later = False
        for other in message.tool_calls:
            if place == last and other["id"] == call["id"]:
                is_later = True
                continue
            reply = replies.get(other["id"])
            if reply is None:
                shown = _shown(other, "later" if is_later else "earlier")
                others.append(shown)
            else:
                shown = _made(other, reply, result=str(reply.text) if include_results else None)
                made.append(shown)
            # one that stands later may have been approved before this one was edited
            if shown.status in ("run", "failed", "earlier") or (
                place == last and other["id"] in approved
            ):
                repeatable.append((shown.name, _comparable(json.loads(shown.arguments))))
    return made, others, (call["name"], _comparable(call["args"])) in repeatable


def _turn(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Returns the messages since the last one of the user.

    A message of type "human" beside the results of tools is not the user's: a tool, or a middleware, added it.
    """
    start, is_added = 0, False
    for place, message in enumerate(messages):
        if isinstance(message, AIMessage):
            is_added = bool(_replies(messages[place + 1 :]))
        elif isinstance(message, HumanMessage) and not is_added:
            start = place + 1
    return messages[start:]


def _replies(after: Sequence[AnyMessage]) -> dict[str | None, ToolMessage]:
    """Returns the tool messages before the model's next message, by the id of their call."""
    before_next = takewhile(lambda message: not isinstance(message, AIMessage), after)
    return {
        message.tool_call_id: message for message in before_next if isinstance(message, ToolMessage)
    }


def _shown(call: ToolCall | Mapping[str, Any], status: Any, result: str | None = None) -> ShownCall:
    return ShownCall(status, call["name"], call_as_json(call["args"]), result)


def _made(call: ToolCall, reply: ToolMessage, *, result: str | None) -> ShownCall:
    if reply.response_metadata.get(NOT_RUN):
        return _shown(call, "blocked")
    status = "failed" if reply.status == "error" else "run"
    executed = reply.response_metadata.get(EXECUTED, call)
    return _shown(executed, status, result)


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
        if isinstance(message, HumanMessage | AIMessage):
            hidden = _hidden_blocks(message)
            text = (
                f"{message.text.strip()} ({hidden}: not shown)" if hidden else message.text.strip()
            )
            if text:
                conversation.append(
                    ("user" if isinstance(message, HumanMessage) else "assistant", text.strip())
                )
    return conversation


def _hidden_blocks(message: AnyMessage) -> str:
    """Returns the names of the content blocks that a text cannot show; calls are judged separately."""
    if isinstance(message.content, str):
        return ""
    kinds = {str(block.get("type")) for block in message.content if isinstance(block, dict)}
    hidden = sorted(kinds - {*_READABLE, "tool_use", "tool_call", "function_call"})
    return ", ".join(f'a block of type "{kind}"' for kind in hidden)


def _hidden_extras(reply: AnyMessage) -> str:
    """Names what a message holds beside its content and the group is not shown, such as audio or a refusal."""
    shown = {_REASONING, "tool_calls", "function_call"}
    extras = sorted(
        f'"{key}"' for key, value in reply.additional_kwargs.items() if value and key not in shown
    )
    return f"{', '.join(extras)} beside its content" if extras else ""


def _whole_text(reply: AnyMessage) -> str:
    """Returns everything that a message shows: its text, or its blocks as JSON if they hold more than text."""
    is_plain = isinstance(reply.content, str) or all(
        isinstance(block, str)
        or (block.get("type") == "text" and set(block) <= {"type", "text", "id", "index"})
        for block in reply.content
    )
    text = str(reply.text) if is_plain else json.dumps(reply.content, ensure_ascii=False)
    reasoning = reply.additional_kwargs.get(_REASONING)
    return (
        f"{text}\n{json.dumps({_REASONING: reasoning}, ensure_ascii=False)}" if reasoning else text
    )


def structured_text(structured: Any) -> str:
    """Returns all that a structured answer holds: its `repr` may omit fields, and so may its own JSON."""
    return f"{structured!r}\n{json.dumps(structured, ensure_ascii=False, default=_fields)}"


def _fields(value: Any) -> Any:
    """Returns the fields of a model or a data class by name; any other value as text."""
    if isinstance(value, BaseModel):
        return {
            **dict(value),
            **{name: getattr(value, name) for name in type(value).model_computed_fields},
        }
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return repr(value)
