"""Owns the tools of a request to a local model, and how a conversation with tool calls is given to a chat template."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

ANY_TOOL = "any"
_OMITTED_BLOCKS = ("tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning", "thinking")


@dataclass(frozen=True, slots=True)
class BoundTools:
    """The tools of a request, in the schemas of OpenAI's API.

    `choice` is the name of the tool that must be called, "any" for any of them, None where the model chooses.
    """

    schemas: Sequence[dict[str, Any]]
    choice: str | None = None

    @property
    def names(self) -> list[str]:
        return [schema["function"]["name"] for schema in self.schemas]

    @classmethod
    def read(cls, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], choice: Any) -> "BoundTools":
        """Converts the tools to schemas."""
        if isinstance(tools, str | bytes | Mapping) or not tools:
            raise ValueError(
                f'"tools" must be a sequence of at least one tool; got {tools!r:.80}. Omit it without tools'
            )
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        for schema in schemas:
            if not isinstance(schema.get("function"), Mapping):
                raise ValueError(
                    f'each of "tools" must be a function; got {schema!r:.80}. Omit tools that a provider runs itself'
                )
        return cls(schemas, _read_choice(choice, cls(schemas).names))


def _read_choice(choice: Any, names: Sequence[str]) -> str | None:
    if choice is None or choice == "auto":
        return None
    if choice is True or choice in (ANY_TOOL, "required"):
        return ANY_TOOL
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else choice
    if isinstance(name, str) and name in names:
        return name
    raise ValueError(
        f'"tool_choice" must be "auto", "any" or the name of a tool in {[*names]}; got {choice!r:.80}. '
        "For a reply without calls, omit the tools"
    )


def to_template_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Returns the conversation as chat templates expect it: arguments are objects, and a tool's result has its name.

    A call that could not be read is part of the assistant's text; what the assistant thought before is omitted.
    """
    names = dict[str, str]()
    conversation = []
    for given in convert_to_openai_messages([_with_plain_content(message) for message in messages]):
        message = {**given, "content": _plain_text(given["content"])}
        if "tool_calls" in message:
            message["tool_calls"] = [_with_arguments(call) for call in message["tool_calls"]]
            names |= {call["id"]: call["function"]["name"] for call in message["tool_calls"]}
        if message["role"] == "tool" and message.get("tool_call_id") in names:
            message.setdefault("name", names[message["tool_call_id"]])
        conversation.append(message)
    return conversation


def _with_plain_content(message: BaseMessage) -> BaseMessage:
    """Returns the assistant's message without the blocks that repeat its calls or tell its thoughts."""
    if not isinstance(message, AIMessage):
        return message
    blocks = [message.content] if isinstance(message.content, str) else message.content
    kept = [block for block in blocks if isinstance(block, str) or block.get("type") not in _OMITTED_BLOCKS]
    invalid = [call["args"] for call in message.invalid_tool_calls if call["args"]]
    content = message.content if kept == blocks and not invalid else [*filter(None, kept), *invalid]
    return message.model_copy(update={"content": content})


def _with_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in content or []]
    if any(part is None for part in parts):
        raise ValueError("ChatTransformers takes text only; a message holds another kind of content. Omit it")
    return "\n".join(parts)
