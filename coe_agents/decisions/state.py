"""Owns how a state becomes a text that a member is shown: whole, but for long conversations, and without media."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, is_data_content_block

from coe_agents import prompts
from coe_agents.text import one_line

_MEDIA = ("image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document", "media")
"""Content blocks of messages that no text can show."""


_ANY = 10**6
"""More characters than a message has that is cut."""


class MediaError(ValueError):
    """A state or a question with media, which chat models are not shown."""


class _Written(str):
    """A piece of JSON that is written already."""

    __slots__ = ()


def to_json(content: Any, limit: int) -> str:
    """Returns a state or an instruction as one line of JSON, whole but for long conversations.

    Nothing is recursive, so that no depth is too large, and what refers to itself ends at the limit.
    """
    pieces, length, rest = list[str](), 0, [content]
    while rest:
        item = rest.pop()
        if isinstance(item, _Written):
            piece = str(item)
        elif isinstance(item, BaseMessage):
            rest.append(_shown(item))
            continue
        elif isinstance(item, Mapping):
            _refuse_media(item)
            named = [(_Written(f"{_plain(str(key))}: "), one) for key, one in item.items()]
            rest += reversed(_between(named, "{", "}"))
            continue
        elif isinstance(item, list | tuple):
            is_conversation = bool(item) and all(isinstance(one, BaseMessage) for one in item)
            rest += reversed(_between([(one,) for one in (_last(item) if is_conversation else item)], "[", "]"))
            continue
        elif item is None or isinstance(item, str | int | float):
            piece = _plain(item)
        else:
            must = "a state must hold texts, numbers, lists, mappings and messages"
            raise TypeError(f"{must}; got {type(item).__name__}. Convert it to JSON data")
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            must = f"a state must have at most {limit} characters as JSON, since every member must see all of it"
            raise ValueError(f'{must}; got more. Shorten it, or raise "max_state_chars"')
    return "".join(pieces)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _between(groups: Sequence[tuple[Any, ...]], start: str, end: str) -> list[Any]:
    """Returns the items of groups with brackets around them, and a comma before each group but the first."""
    parts: list[Any] = [_Written(start)]
    for place, group in enumerate(groups):
        parts += [_Written(", "), *group] if place else group
    return [*parts, _Written(end)]


def _last(messages: Sequence[BaseMessage]) -> list[Any]:
    """Returns the last messages of a conversation that fit, at least one, as they are shown."""
    shown, left = list[Any](), prompts.MAX_CONVERSATION
    for message in reversed(messages):
        one = _shown(message)
        left -= len(to_json(one, _ANY))
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
            to_json(calls, prompts.MAX_JUDGED)
        except ValueError:
            calls = ["(too long to be shown)"]
        shown["tool_calls"] = calls
    return shown


def _refuse_media(block: Mapping[Any, Any], kinds: Sequence[str] = ()) -> None:
    if "type" in block and (block["type"] in kinds or is_data_content_block(dict(block))):
        must = "a state for chat models must hold no media, which a group of them is not shown"
        raise MediaError(f'{must}; got a block of type "{block["type"]}". Add members that are decision models')
