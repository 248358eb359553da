"""Owns the body of a request to OpenAI's Responses API: it is read as that of a chat completion, by the same rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from coe_agents.serve.api_error import ApiError, invalid_request, unsupported_request
from coe_agents.serve.chat_request import (
    OF_CALLER,
    ChatRequest,
    Refused,
    check_fields,
    mapping_in,
    read_chat_request,
)
from coe_agents.types import Fields, JsonObject

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
_REFUSED: Refused = {
    "previous_response_id": ((), _WHOLE),
    "conversation": ((), _WHOLE),
    "prompt": ((), 'nothing is stored. Send its texts as "instructions" and "input"'),
    "background": ((False,), "an answer is given while the caller waits"),
}
KNOWN = (*_OWN, *_SAME, *_HAS_NO_EFFECT, *_REFUSED)
_KINDS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


def read_response_request(body: Fields, *, model: str) -> ChatRequest:
    """Returns the request in a body; raises `ApiError` if it asks for another model, or for what no group can do."""
    fields = check_fields(body, known=KNOWN, refused=_REFUSED)
    messages, places = _to_messages(fields.get("input"), fields.get("instructions"))
    text = mapping_in(fields, "text")

    chat = {name: fields[name] for name in _SAME if name in fields}
    chat["messages"] = messages
    chat["tools"] = _to_tools(fields.get("tools", []))
    if "tool_choice" in fields:
        chat["tool_choice"] = _nest(fields["tool_choice"], "function")
    if "format" in text:
        chat["response_format"] = _nest(text["format"], "json_schema")
    try:
        request = read_chat_request(chat, model=model)
    except ApiError as error:
        raise _in_these_words(error, places) from error

    ignored = list(request.ignored)
    for name in _HAS_NO_EFFECT:
        if name in fields:
            ignored.append(name)
    if "verbosity" in text:
        ignored.append("text.verbosity")
    return replace(request, ignored=tuple(ignored))


def _nest(value: Any, kind: str) -> Any:
    """Returns an object of this type, "function" or "json_schema", as a chat completion has it; another as it is.

    There the fields are in an object of their own, which is named as the type is.
    """
    if not isinstance(value, Mapping) or value.get("type") != kind:
        return value
    fields = {name: field for name, field in value.items() if name != "type"}
    return {"type": kind, kind: fields}


def _to_messages(sent: Any, instructions: Any) -> tuple[list[Any], list[str]]:
    """Returns the messages of a conversation, and where the request has each of them."""
    messages = list[Any]()
    places = list[str]()
    if instructions is not None:
        messages.append({"role": "system", "content": instructions})
        places.append("instructions")
    if isinstance(sent, str):
        messages.append({"role": "user", "content": sent})
        places.append("input")
        return messages, places
    if not isinstance(sent, list) or not sent:
        raise invalid_request(
            "input", '"input" must be a text, or a list of at least one item', "Add the question"
        )

    for place, item in enumerate(sent):
        where = f"input[{place}]"
        message = _to_message(item, where)
        if message is None:
            continue
        former = messages[-1] if messages else {}
        if "tool_calls" in message and former.get("role") == "assistant":
            # one turn, in several items
            former["tool_calls"] = [*former.get("tool_calls", ()), *message["tool_calls"]]
            continue
        messages.append(message)
        places.append(where)
    return messages, places


def _to_message(item: Any, where: str) -> JsonObject | None:
    """Returns the message that an item of the conversation is; None for another model's reasoning."""
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    match kind:
        case "reasoning":
            return None
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            content = _to_parts(item.get("output"))
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
        case "message":
            return {"role": item.get("role"), "content": _to_parts(item.get("content"))}
        case "item_reference":
            raise unsupported_request(
                where,
                f"{where} is not supported: nothing is stored",
                'Send the whole conversation as "input", and set "store" to false',
            )
    raise unsupported_request(
        where,
        f"{where} must be a message, or a call of a function or its output: others are not supported",
        "Omit it",
    )


def _to_parts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = list[Any]()
    for part in content:
        kind = str(part.get("type")) if isinstance(part, Mapping) else ""
        if kind in _KINDS:
            parts.append({**part, "type": _KINDS[kind]})
        else:
            parts.append(part)
    return parts


def _to_tools(tools: Any) -> Any:
    """Returns functions in the form of a chat completion; other tools stay as they are, and are refused there."""
    if not isinstance(tools, list):
        return tools
    return [_nest(tool, "function") for tool in tools]


def _in_these_words(error: ApiError, places: Sequence[str]) -> ApiError:
    """Returns an error about a chat completion in the names of this API's fields."""

    def place_of(match: re.Match[str]) -> str:
        number = int(match[1])
        return places[number] if number < len(places) else "input"

    def translate(text: str) -> str:
        if text == "messages":
            return "input"
        text = re.sub(r"\bmessages\[(\d+)\]", place_of, text)
        text = text.replace('"messages"', '"input"')
        return text.replace("response_format", "text.format")

    param = error.param and translate(error.param)
    message = translate(error.message)
    return ApiError(error.status, message, param=param, code=error.code, headers=error.headers)
