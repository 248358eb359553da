"""Owns tool calls of a local model: how a chat template is given the tools and earlier calls, and how replies are read.

Only what the model drew is read for calls, never the prompt: what a user or a tool's result quotes is text.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    convert_to_openai_messages,
)
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents.backends.generation import CutRow
from coe_agents.backends.streaming import certain_prefix
from coe_agents.checks import require
from coe_agents.files import parse_json
from coe_agents.types import JsonObject

ANY_TOOL = "any"
_OMITTED_BLOCKS = ("tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning", "thinking")


@dataclass(frozen=True, slots=True)
class BoundTools:
    """The tools of a request, in the schemas of OpenAI's API.

    `choice` is the name of the tool that must be called, "any" for any of them, None where the model chooses.
    """

    schemas: Sequence[JsonObject]
    choice: str | None = None

    @property
    def names(self) -> list[str]:
        return [schema["function"]["name"] for schema in self.schemas]

    @classmethod
    def read(
        cls, tools: Sequence[JsonObject | type | Callable[..., Any] | BaseTool], choice: Any
    ) -> "BoundTools":
        """Converts the tools to schemas."""
        are_several = not isinstance(tools, str | bytes | Mapping) and bool(tools)
        must = '"tools" must be a sequence of at least one tool'
        require(are_several, must, tools, "Omit it without tools")
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        must = 'each of "tools" must be a function'
        for schema in schemas:
            is_function = isinstance(schema.get("function"), Mapping)
            require(is_function, must, schema, "Omit tools that a provider runs itself")
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


def to_template_messages(messages: Sequence[BaseMessage]) -> list[JsonObject]:
    """Returns the conversation as chat templates expect it: arguments are objects, and a tool's result has its name.

    A call that could not be read is part of the assistant's text; what the assistant thought before is omitted.
    """
    names = dict[str, str]()  # of the tools, by the ids of their calls
    conversation = list[JsonObject]()
    for converted in convert_to_openai_messages(list(map(_with_plain_content, messages))):
        message = {**converted, "content": _plain_text(converted["content"])}
        calls = list[JsonObject]()
        for call in message.get("tool_calls", ()):
            function = call["function"]
            names[call["id"]] = function["name"]
            arguments = json.loads(function["arguments"])
            calls.append({**call, "function": {**function, "arguments": arguments}})
        if calls:
            message["tool_calls"] = calls
        if message["role"] == "tool" and message.get("tool_call_id") in names:
            message.setdefault("name", names[message["tool_call_id"]])
        conversation.append(message)
    return conversation


def _with_plain_content(message: BaseMessage) -> BaseMessage:
    """Returns the assistant's message without the blocks that repeat its calls or tell its thoughts."""
    if not isinstance(message, AIMessage):
        return message
    blocks = [message.content] if isinstance(message.content, str) else message.content
    kept = list[Any]()
    for block in blocks:
        if isinstance(block, str) or block.get("type") not in _OMITTED_BLOCKS:
            kept.append(block)
    invalid = [call["args"] for call in message.invalid_tool_calls if call["args"]]
    if kept == blocks and not invalid:
        return message
    content = [block for block in kept if block] + invalid
    return message.model_copy(update={"content": content})


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = list[str]()
    for part in content or ():
        text = part if isinstance(part, str) else part.get("text")
        if text is None:
            raise ValueError(
                "ChatTransformers takes text only; a message holds another kind of content. Omit it"
            )
        texts.append(text)
    return "\n".join(texts)


OPENING, CLOSING = "<tool_call>", "</tool_call>"
HERMES_TAGS = (OPENING, CLOSING, "<tool_response>", "</tool_response>", "<tools>", "</tools>")
"""What structures a conversation in the Hermes form; in some tokenizers these are tokens, in others text."""

_SHORTEST_PIECE = len("<tool")
"""A reply that is cut off may end within the opening tag; fewer characters may begin any text."""
_THOUGHT = re.compile(r"\s*<(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_END_OF_THOUGHT = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"<(?:think|thinking|reasoning|thought)>\s*\Z", re.IGNORECASE)
_NO_SPACE = re.compile(r"\S|\Z")


class Reply(NamedTuple):
    """What a model replied: the text, the calls, and what should be calls but cannot be read."""

    content: str
    calls: Sequence[ToolCall] = ()
    invalid: Sequence[InvalidToolCall] = ()


@dataclass(frozen=True, slots=True)
class PlainForm:
    """Text alone, of a model that is shown no tools; see `HermesForm` for the attributes."""

    hidden: Collection[int] | None = None
    beginning: str = ""

    def certain_prefix(self, text: str, stop: Sequence[str]) -> str:
        """Returns how the text of a reply surely begins while it is drawn."""
        return certain_prefix(text, stop)

    def read(self, row: CutRow) -> Reply:
        """Returns the whole text."""
        return Reply(row.text)


@dataclass(frozen=True, slots=True)
class HermesForm:
    """JSON between tags, as Hermes and Qwen write it: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    What a model thinks before it replies, in `<think>`, is text, and so is a call that it considers there.

    Attributes:
        hidden: The ids of the tokens that are no part of the text; None for the tokenizer's special ones.
        beginning: How every reply begins; it is part of the prompt and not drawn.
        is_thinking: Whether the prompt ends within a thought.
    """

    hidden: Collection[int] | None = None
    beginning: str = ""
    is_thinking: bool = False

    @classmethod
    def create(cls, tokenizer: Any, template: str, prompt: str, choice: str | None) -> "HermesForm":
        """Returns the form of the replies to prompts that end as `prompt` does."""
        if OPENING not in template:
            raise ValueError(
                f"tool calls must be written as {OPENING} by the chat template, or the tokenizer must have a "
                '`response_template` and `tool_choice` be "auto"; got a template that writes them in another way. Pass '
                "a `chat_template`"
            )
        is_thinking = _OPEN_THOUGHT.search(prompt) is not None
        must = '"tool_choice" must be "auto" where the chat template begins a thought'
        advice = "Pass a `chat_template` that begins none"
        require(choice is None or not is_thinking, must, choice, advice)

        # some tokenizers call the tags special, which are then left out of the text
        tags = set[int]()
        special = set[int](tokenizer.all_special_ids)
        for number, token in tokenizer.added_tokens_decoder.items():
            if token.content in (OPENING, CLOSING):
                tags.add(number)
            if token.special:
                special.add(number)
        hidden = special - tags if special & tags else None

        # no further than needed: how the model's tokens divide what follows is its own
        beginning = ""
        if choice == ANY_TOOL:
            beginning = OPENING
        elif choice is not None:
            beginning = f'{OPENING}\n{{"name": {json.dumps(choice)}, "arguments":'
        return cls(hidden, beginning, is_thinking)

    def certain_prefix(self, text: str, stop: Sequence[str]) -> str:
        """Returns how the text of a reply surely begins while it is drawn: in front of the first call."""
        head, _, _ = (self.beginning + text).partition(OPENING[:_SHORTEST_PIECE])
        return certain_prefix(head, [*stop, OPENING])

    def read(self, row: CutRow) -> Reply:
        """Returns text and calls; the white space around a call is no part of the text."""
        text = self.beginning + row.text
        texts = list[str]()
        calls = list[ToolCall]()
        invalid = list[InvalidToolCall]()
        place = 0
        for start, end in self._find_calls(text, is_cut=row.finish_reason == "length"):
            # what stands in front of a call keeps its beginning only at the start of the reply
            before = text[place:start].rstrip()
            texts.append(before.lstrip() if texts else before)
            written = text[start:end]
            place = end
            try:
                calls.append(_read_tagged(written))
            except ValueError as error:
                # LangChain completes the JSON of a piece of a stream: it must not find any here
                if not written.lstrip().startswith("<"):
                    written = OPENING + written
                invalid.append(_invalid(written, error))
        if not texts:
            return Reply(text)
        texts.append(text[place:].strip())
        return Reply("\n".join(filter(None, texts)), calls, invalid)

    def _find_calls(self, text: str, *, is_cut: bool) -> Iterator[tuple[int, int]]:
        """Yields where each call begins and ends, with its tags as far as they are there."""
        end = self._end_of_thought(text)
        while (start := text.find(OPENING, end)) >= 0:
            end = _end_of_call(text, start)
            yield start, end
        if not is_cut:
            return
        # the longest piece of a tag that was cut off
        for n in range(len(OPENING) - 1, _SHORTEST_PIECE - 1, -1):
            if text.endswith(OPENING[:n], end):
                yield len(text) - n, len(text)
                return

    def _end_of_thought(self, text: str) -> int:
        """Returns where the text begins that may hold calls: at its end while the model thinks."""
        if not self.is_thinking and not _THOUGHT.match(text):
            return 0
        closing = _END_OF_THOUGHT.search(text)
        return closing.end() if closing else len(text)


def _end_of_call(text: str, start: int) -> int:
    """Returns where a call ends: behind its closing tag, which may occur in an argument, too; else with the text."""
    beginning = _skip_space(text, start + len(OPENING))
    try:
        _, end_of_json = json.JSONDecoder().raw_decode(text, beginning)
        end = _skip_space(text, end_of_json)
    except (ValueError, RecursionError):
        end = start
    if not text.startswith(CLOSING, end):
        end = text.find(CLOSING, end)
    return end + len(CLOSING) if end >= 0 else len(text)


def _skip_space(text: str, start: int) -> int:
    match = _NO_SPACE.search(text, start)
    return match.start() if match else len(text)


@dataclass(frozen=True, slots=True)
class TemplateForm:
    """What the `response_template` of a tokenizer describes, as those of Llama 3 and Mistral have one.

    transformers reads it (`parse_response`). What a model thinks before it replies is no part of the content.

    Attributes:
        prompt: How the prompts of the replies end.
        hidden: No token is left out of the text: control tokens are the form's signs.
    """

    tokenizer: Any
    prompt: str
    tools: Sequence[JsonObject]
    hidden: Collection[int] = ()
    beginning: str = ""

    def certain_prefix(self, text: str, stop: Sequence[str]) -> str:
        """Returns nothing: where the content ends is known at the end of the reply."""
        return ""

    def read(self, row: CutRow) -> Reply:
        """Returns text and calls; a reply that cannot be read, or is cut off within calls, is one invalid call."""
        try:
            message = self._parse(row.text)
            calls = [_to_call(call.get("function", call)) for call in message.get("tool_calls", ())]
            if calls and row.finish_reason == "length":
                raise ValueError("a reply with calls must end; it is cut off. Raise `max_tokens`")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # LangChain completes the JSON of a piece of a stream: it must not find any here
            written = f"unreadable: {row.text}"
            return Reply("", invalid=[_invalid(written, error)])
        for call in calls:
            call["id"] = uuid4().hex[:9]  # the form that Mistral's chat templates demand
        return Reply(message.get("content") or "", calls)

    def _parse(self, text: str) -> JsonObject:
        template = self.tokenizer.response_template
        form = template["fields"].get("tool_calls", {})
        if form.get("content") == "json" and not form.get("content_args"):
            # its JSON may name a field twice, of which transformers would drop one
            written = {**form, "content": "text", "transform": "{content}", "transform_each": False}
            fields = {**template["fields"], "tool_calls": written}
            raw = self.tokenizer.parse_response(
                text, {**template, "fields": fields}, prefix=self.prompt
            )
            bodies = raw.get("tool_calls", ())
            for body in [bodies] if isinstance(bodies, str) else bodies:
                parse_json(body, is_strict=True)
        message: JsonObject = self.tokenizer.parse_response(
            text, prefix=self.prompt, tools=[*self.tools]
        )
        return message


ReplyForm = PlainForm | HermesForm | TemplateForm


def _read_tagged(text: str) -> ToolCall:
    if not text.endswith(CLOSING):
        raise ValueError(f"a call must end with {CLOSING}; it is cut off. Raise `max_tokens`")
    value = parse_json(text[len(OPENING) : -len(CLOSING)], is_strict=True)
    return _to_call(value)


def _to_call(value: Any) -> ToolCall:
    fields = value if isinstance(value, dict) else {}
    name = fields.get("name")
    arguments = fields.get("arguments")
    if isinstance(arguments, str):
        arguments = parse_json(arguments, is_strict=True)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        form = '{"name": text, "arguments": object}'
        raise ValueError(f"a call must be {form}; got {value!r:.80}. Draw another response")
    # numbers beyond a double, and halves of characters, are no JSON that another program would read
    json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    return ToolCall(name=name, args=arguments, id=_new_id(), type="tool_call")


def _invalid(written: str, error: Exception) -> InvalidToolCall:
    return InvalidToolCall(
        name=None, args=written, id=_new_id(), error=str(error), type="invalid_tool_call"
    )


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"
