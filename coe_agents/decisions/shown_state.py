"""Owns how a state becomes a text that a member is shown: whole, but for long conversations, or refused."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, is_data_content_block

from coe_agents import prompts
from coe_agents.text import for_log, one_line

_CALLS = ("tool_call", "tool_use", "function_call")
"""Blocks of an assistant's calls, which are shown beside its text."""
_REASONING = ("reasoning", "thinking", "redacted_thinking")
"""Blocks of an assistant's own thoughts, which are not what is judged, and not shown."""


class MediaError(ValueError):
    """A state or a question with media, or with another content than text, which chat models are not shown."""


def to_json(content: Any, limit: int) -> str:
    """Returns a state or an instruction as one line of JSON, whole but for long conversations."""
    try:
        text = json.dumps(_to_data(content), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError(
            "a state must not be nested this deep, nor hold itself. Pass flat JSON data"
        ) from error
    if len(text) > limit:
        must = f"a state must have at most {limit} characters as JSON, since every member must see all of it"
        raise ValueError(f"{must}; got {len(text)}. Shorten it")
    return text


def _to_data(item: Any) -> Any:
    if isinstance(item, BaseMessage):
        return _shown(item)
    if isinstance(item, Mapping):
        if is_data_content_block(dict(item)):
            raise _unshowable(item)
        if all(isinstance(key, str) for key in item):
            return {key: _to_data(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        if all(isinstance(part, BaseMessage) for part in item):
            return _last(item)
        return list(map(_to_data, item))
    if item is None or isinstance(item, str | int | float):
        return item
    must = "a state must hold texts, numbers, lists, mappings with texts as keys, and messages"
    raise TypeError(f"{must}; got {type(item).__name__}. Convert it to JSON data")


def _last(messages: Sequence[BaseMessage]) -> list[Any]:
    """Returns the last messages of a conversation that fit, at least one, as they are shown."""
    shown = list[Any]()
    left = prompts.MAX_CONVERSATION
    for message in reversed(messages):
        data = _shown(message)
        left -= len(json.dumps(data, ensure_ascii=False))
        if left < 0 and shown:
            shown.append(prompts.OMITTED)
            break
        shown.append(data)
    return shown[::-1]


def _shown(message: BaseMessage) -> dict[str, Any]:
    """Returns a message as JSON data; what a text cannot show is refused."""
    calls: list[Any] = []
    shown_ids = set[str]()
    is_assistants = isinstance(message, AIMessage)
    if isinstance(message, AIMessage):
        for call in [*message.tool_calls, *message.invalid_tool_calls]:
            calls.append({"name": call["name"], "args": call["args"]})
            if call["id"]:
                shown_ids.add(call["id"])
    for block in message.content if isinstance(message.content, list) else ():
        if not isinstance(block, str) and not _is_shown(block, is_assistants, shown_ids):
            raise _unshowable(block)
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    content = one_line(str(message.text), prompts.MAX_JUDGED)
    shown: dict[str, Any] = {"role": role, "content": content}
    if calls:
        try:
            shown["tool_calls"] = json.loads(to_json(calls, prompts.MAX_JUDGED))
        except ValueError:
            shown["tool_calls"] = ["(too long to be shown)"]
    return shown


def _is_shown(block: Mapping[str, Any], is_assistants: bool, calls: Collection[str]) -> bool:
    """Returns whether `message.text`, or its calls, say what a block says; of the kinds that exist, these few do."""
    kind = block.get("type")
    if kind == "text":
        return isinstance(block.get("text"), str)
    if not is_assistants:
        return False
    if kind in _CALLS:
        return (block.get("call_id") or block.get("id")) in calls
    return kind in _REASONING


def _unshowable(block: Mapping[str, Any]) -> MediaError:
    must = (
        "a state for chat models must hold no media, nor blocks of messages that are no text: "
        "they would not be shown"
    )
    kind = for_log(str(block.get("type")), limit=40)
    return MediaError(f'{must}; got a block of type "{kind}". Add members that are decision models')
