"""Owns the body of a request to OpenAI's Responses API: it is read as that of a chat completion, by the same rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from coe_agents.serve.api_error import ApiError, invalid_request
from coe_agents.serve.chat_request import (
    OF_CALLER,
    ChatRequest,
    check_fields,
    mapping_in,
    read_chat_request,
)

_LIKE = (
    "model",
    "parallel_tool_calls",
    "stream",
    "temperature",
    "top_p",
    "top_logprobs",
    "store",
    "coe",
)
_SAME = (*_LIKE, *OF_CALLER)
"""What a chat completion names alike."""
_HAS_NO_EFFECT = ("max_output_tokens", "max_tool_calls", "reasoning", "truncation")
_OWN = ("input", "instructions", "tools", "tool_choice", "text", "include", "stream_options")
_WHOLE = 'nothing is stored. Send the whole conversation as "input"'
_REFUSED: Mapping[str, tuple[Sequence[Any], str]] = {
    "previous_response_id": ((), _WHOLE),
    "conversation": ((), _WHOLE),
    "prompt": ((), 'nothing is stored. Send its texts as "instructions" and "input"'),
    "background": ((False,), "an answer is given while the caller waits"),
}
KNOWN = (*_OWN, *_SAME, *_HAS_NO_EFFECT, *_REFUSED)
_KINDS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


def read_response_request(body: Mapping[str, Any], *, model: str) -> ChatRequest:
    """Returns the request in a body; raises `ApiError` if it asks for another model, or for what no group can do."""
    given = check_fields(body, known=KNOWN, refused=_REFUSED)
    messages, places = _to_messages(given.get("input"), given.get("instructions"))
    chat = {name: given[name] for name in _SAME if name in given}
    chat |= {"messages": messages, "tools": _to_tools(given.get("tools", []))}
    if "tool_choice" in given:
        choice = given["tool_choice"]
        is_named = isinstance(choice, Mapping) and choice.get("type") == "function"
        chat["tool_choice"] = (
            {"type": "function", "function": {"name": choice.get("name")}} if is_named else choice
        )
    text = mapping_in(given, "text")
    if "format" in text:
        shape = text["format"]
        if isinstance(shape, Mapping) and shape.get("type") == "json_schema":
            schema = {name: own for name, own in shape.items() if name != "type"}
            shape = {"type": "json_schema", "json_schema": schema}
        chat["response_format"] = shape
    try:
        asked = read_chat_request(chat, model=model)
    except ApiError as error:
        raise _in_these_words(error, places) from error
    ignored = [name for name in _HAS_NO_EFFECT if name in given] + ["text.verbosity"] * (
        "verbosity" in text
    )
    return replace(asked, ignored=(*asked.ignored, *ignored))


def _to_messages(given: Any, instructions: Any) -> tuple[list[Any], list[str]]:
    """Returns the messages of a conversation, and where the request has each of them."""
    messages = list[Any]()
    places = list[str]()
    if instructions is not None:
        messages.append({"role": "system", "content": instructions})
        places.append("instructions")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}], [*places, "input"]
    if not isinstance(given, list) or not given:
        raise invalid_request(
            "input", '"input" must be a text, or a list of at least one item. Add the question'
        )
    for place, item in enumerate(given):
        where = f"input[{place}]"
        message = _to_message(item, where)
        if message is None:
            continue
        former = messages[-1] if messages else {}
        if (
            "tool_calls" in message and former.get("role") == "assistant"
        ):  # one turn, in several items
            former["tool_calls"] = [*former.get("tool_calls", ()), *message["tool_calls"]]
            continue
        messages.append(message)
        places.append(where)
    return messages, places


def _to_message(item: Any, where: str) -> dict[str, Any] | None:
    """Returns the message that an item of the conversation is; None for another model's reasoning."""
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    if kind == "reasoning":
        return None
    if kind == "function_call":
        function = {name: item.get(name) for name in ("name", "arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": item.get("call_id"),
            "content": _to_parts(item.get("output")),
        }
    if kind == "item_reference":
        raise invalid_request(
            where, f'{where} is not supported: {_WHOLE}, and set "store" to false'
        )
    if kind != "message":
        must = f"{where} must be a message, or a call of a function or its output: others are not supported"
        raise invalid_request(where, f"{must}. Omit it")
    return {"role": item.get("role"), "content": _to_parts(item.get("content"))}


def _to_parts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = [(part, str(part.get("type")) if isinstance(part, Mapping) else "") for part in content]
    return [{**part, "type": _KINDS[kind]} if kind in _KINDS else part for part, kind in parts]


def _to_tools(given: Any) -> Any:
    """Returns functions in the form of a chat completion; other tools stay as they are, and are refused there."""
    if not isinstance(given, list):
        return given
    return [
        {
            "type": "function",
            "function": {name: own for name, own in tool.items() if name != "type"},
        }
        if isinstance(tool, Mapping) and tool.get("type") == "function"
        else tool
        for tool in given
    ]


def _in_these_words(error: ApiError, places: Sequence[str]) -> ApiError:
    """Returns an error about a chat completion in the names of this API's fields."""

    def place_of(found: re.Match[str]) -> str:
        number = int(found[1])
        return places[number] if number < len(places) else "input"

    def translate(text: str) -> str:
        text = re.sub(r"\bmessages\[(\d+)\]", place_of, text).replace('"messages"', '"input"')
        return "input" if text == "messages" else text.replace("response_format", "text.format")

    param = error.param and translate(error.param)
    return ApiError(
        error.status, translate(error.message), param=param, code=error.code, headers=error.headers
    )
