"""Owns how a state becomes a text that a member is shown: whole, but for long conversations, and without media."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, is_data_content_block

from coe_agents import prompts
from coe_agents.text import one_line

_MEDIA = ("image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document", "media")
"""Content blocks of messages that no text can show."""


class MediaError(ValueError):
    """A state or a question with media, which chat models are not shown."""


def to_json(content: Any, limit: int) -> str:
    """Returns a state or an instruction as one line of JSON, whole but for long conversations."""
    try:
        text = json.dumps(_to_data(content), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("a state must not be nested this deep, nor hold itself. Pass flat JSON data") from error
    if len(text) > limit:
        must = f"a state must have at most {limit} characters as JSON, since every member must see all of it"
        raise ValueError(f"{must}; got {len(text)}. Shorten it")
    return text


def _to_data(item: Any) -> Any:
    if isinstance(item, BaseMessage):
        return _shown(item)
    if isinstance(item, Mapping):
        _refuse_media(item)
        return {str(key): _to_data(one) for key, one in item.items()}
    if isinstance(item, list | tuple):
        is_conversation = bool(item) and all(isinstance(one, BaseMessage) for one in item)
        return _last(item) if is_conversation else [_to_data(one) for one in item]
    if item is None or isinstance(item, str | int | float):
        return item
    must = "a state must hold texts, numbers, lists, mappings and messages"
    raise TypeError(f"{must}; got {type(item).__name__}. Convert it to JSON data")


def _last(messages: Sequence[BaseMessage]) -> list[Any]:
    """Returns the last messages of a conversation that fit, at least one, as they are shown."""
    shown, left = list[Any](), prompts.MAX_CONVERSATION
    for message in reversed(messages):
        one = _shown(message)
        left -= len(json.dumps(one, ensure_ascii=False))
        if left < 0 and shown:
            return [prompts.OMITTED, *reversed(shown)]
        shown.append(one)
    return [*reversed(shown)]


def _shown(message: BaseMessage) -> dict[str, Any]:
    """Returns a message as JSON data; what a text cannot show is refused."""
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, Mapping):
            _refuse_media(block, kinds=_MEDIA)
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    shown: dict[str, Any] = {"role": role, "content": one_line(str(message.text), prompts.MAX_JUDGED)}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls: list[Any] = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
        try:
            shown["tool_calls"] = json.loads(to_json(calls, prompts.MAX_JUDGED))
        except ValueError:
            shown["tool_calls"] = ["(too long to be shown)"]
    return shown


def _refuse_media(block: Mapping[Any, Any], kinds: Sequence[str] = ()) -> None:
    if "type" in block and (block["type"] in kinds or is_data_content_block(dict(block))):
        must = "a state for chat models must hold no media, which a group of them is not shown"
        raise MediaError(f'{must}; got a block of type "{block["type"]}". Add members that are decision models')
