"""Owns how a model writes its reply: which part is text, which are tool calls, and which cannot be read as calls.

Only what the model drew is read for calls, never the prompt: what a user or a tool's result quotes is text.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from langchain_core.messages import InvalidToolCall, ToolCall

from coe_agents.backends.generation import CutRow
from coe_agents.backends.tool_calls import ANY_TOOL, BoundTools
from coe_agents.documents import parse_json

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
    """What a model replied: the text, the calls, what should be calls but cannot be read, and what it thought before.

    `reasoning` is "" where the form does not separate it from the text.
    """

    content: str
    calls: Sequence[ToolCall] = ()
    invalid: Sequence[InvalidToolCall] = ()
    reasoning: str = ""


class ReplyForm(Protocol):
    """How a reply is written."""

    @property
    def hidden(self) -> Collection[int] | None:
        """The ids of the tokens that are no part of the text; None for the tokenizer's special ones."""

    @property
    def beginning(self) -> str:
        """How every reply begins; it is part of the prompt and not drawn."""

    def content_so_far(self, text: str) -> str:
        """Returns the part of an unfinished reply that is certainly content."""

    def read(self, prompt: Sequence[int], row: CutRow) -> Reply:
        """Reads a finished reply to the prompt."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """A reply without tools: all of it is text."""

    hidden: Collection[int] | None = None
    beginning: str = ""

    def content_so_far(self, text: str) -> str:
        """Returns the text."""
        return text

    def read(self, prompt: Sequence[int], row: CutRow) -> Reply:
        """Returns the text."""
        return Reply(row.text)


@dataclass(frozen=True, slots=True)
class HermesForm:
    """JSON between tags, as Hermes and Qwen write it: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    What a model thinks before it replies, in `<think>`, is text, and so is a call that it considers there.

    Attributes:
        is_thinking: Whether the prompt ends within a thought.
    """

    hidden: Collection[int] | None = None
    beginning: str = ""
    is_thinking: bool = False

    @classmethod
    def create(cls, tokenizer: Any, prompt: str, choice: str | None) -> "HermesForm":
        """Returns the form of the replies to prompts that end as `prompt` does.

        Raises:
            ValueError: If a call is forced, and the prompt ends within a thought.
        """
        is_thinking = _OPEN_THOUGHT.search(prompt) is not None
        if choice is not None and is_thinking:
            raise ValueError(
                f'"tool_choice" must be "auto" where the chat template begins a thought; got "{choice}". '
                "Pass a `chat_template` that begins none"
            )
        added = tokenizer.added_tokens_decoder
        tags = {number for number, token in added.items() if token.content in (OPENING, CLOSING)}
        special = {*tokenizer.all_special_ids, *(number for number, token in added.items() if token.special)}
        return cls(special - tags if special & tags else None, _beginning_with(choice), is_thinking)

    def content_so_far(self, text: str) -> str:
        """Returns the text before the first call and before what may become its tag."""
        text = self.beginning + text
        start = text.find(OPENING, self._end_of_thought(text))
        return (text[:start] if start >= 0 else text.removesuffix(_piece_of_opening(text))).rstrip()

    def read(self, prompt: Sequence[int], row: CutRow) -> Reply:
        """Returns text and calls; the white space around a call is no part of the text."""
        text = self.beginning + row.text
        texts, calls, invalid, place = list[str](), list[ToolCall](), list[InvalidToolCall](), 0
        for start, end in self._find_calls(text, is_cut=row.finish_reason == "length"):
            texts.append(text[place:start].rstrip())
            try:
                calls.append(_read_tagged(text[start:end]))
            except ValueError as error:
                invalid.append(_create_invalid(text[start:end], error))
            place = end
        if not place:
            return Reply(text)
        first, *others = [*texts, text[place:].rstrip()]
        return Reply("\n".join(filter(None, [first, *map(str.strip, others)])), calls, invalid)

    def _find_calls(self, text: str, *, is_cut: bool) -> Iterator[tuple[int, int]]:
        """Yields where each call begins and ends, with its tags as far as they are there."""
        end = self._end_of_thought(text)
        while (start := text.find(OPENING, end)) >= 0:
            end = _end_of_call(text, start)
            yield start, end
        piece = _piece_of_opening(text[end:])
        if is_cut and len(piece) >= _SHORTEST_PIECE:
            yield len(text) - len(piece), len(text)

    def _end_of_thought(self, text: str) -> int:
        """Returns where the text begins that may hold calls: at its end while the model thinks."""
        if not self.is_thinking and not _THOUGHT.match(text):
            return 0
        found = _END_OF_THOUGHT.search(text)
        return found.end() if found else len(text)


@dataclass(frozen=True, slots=True)
class TemplateForm:
    """The form that the tokenizer's own `response_template` describes, read by transformers.

    Nothing is certain before the end.

    Attributes:
        tokenizer: The tokenizer that has the template.
        schemas: The tools, by whose schemas transformers converts arguments that are written as text.
        stop: Strings that end a reply and are no part of it.
    """

    tokenizer: Any
    schemas: Sequence[dict[str, Any]]
    stop: Sequence[str] = ()
    hidden: Collection[int] | None = field(default=None, init=False)
    beginning: str = field(default="", init=False)

    def content_so_far(self, text: str) -> str:
        """Returns "" until the reply is finished."""
        return ""

    def read(self, prompt: Sequence[int], row: CutRow) -> Reply:
        """Returns text and calls; a reply that transformers cannot read is one invalid call."""
        drawn = self.tokenizer.decode([token.id for token in row.tokens])
        written = drawn[: min((drawn.index(string) for string in self.stop if string in drawn), default=len(drawn))]
        is_cut = row.finish_reason == "length" or written != drawn
        try:
            parser = self.tokenizer.get_response_parser(prefix=[*prompt], tools=[*self.schemas])
            events = parser.feed(written)
            message, last_events = parser.finalize()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return Reply("", (), [_create_invalid(written, error)])
        calls, invalid, texts = list[ToolCall](), list[InvalidToolCall](), list[str]()
        opened, body = False, ""
        for place, event in enumerate([*events, *last_events]):
            if event["type"] == "region_open":
                opened, body = True, ""
            elif event["type"] == "region_chunk":
                body += event["text"]
            elif event["field"] == "content":
                texts.append(str(event["value"]))
            elif event["field"] == "tool_calls":
                is_whole = opened and (place < len(events) or not is_cut)
                try:
                    calls += _read_parsed(event["value"], body, is_whole=is_whole)
                except ValueError as error:
                    invalid.append(_create_invalid(body, error))
        reasoning = message.get("reasoning_content") or message.get("thinking") or ""
        return Reply("\n".join(filter(None, texts)), calls, invalid, str(reasoning))


def create_reply_form(
    tokenizer: Any, template: str, prompt: str, tools: BoundTools, stop: Sequence[str] = ()
) -> ReplyForm:
    """Returns the form in which a model with tools writes its replies to prompts that end as `prompt` does.

    Raises:
        ValueError: If calls could not be read from its replies, or cannot be forced.
    """
    if getattr(tokenizer, "response_template", None) is not None:
        if tools.choice is not None:
            raise ValueError(
                f'"tool_choice" must be "auto" where the tokenizer has a `response_template`; got "{tools.choice}". '
                "Omit it"
            )
        tokenizer.get_response_parser(prefix="", tools=[*tools.schemas])  # it checks the template
        return TemplateForm(tokenizer, tools.schemas, stop)
    if OPENING in template:
        return HermesForm.create(tokenizer, prompt, tools.choice)
    raise ValueError(
        f"tool calls must be written as {OPENING} by the chat template, or described by a `response_template` of the "
        "tokenizer; got a template that writes them in another way. Pass a `chat_template`, or add a "
        "`response_template` to tokenizer_config.json"
    )


def _beginning_with(choice: str | None) -> str:
    if choice is None:
        return ""
    # no further than needed: how the model's tokens divide what follows is its own
    return OPENING if choice == ANY_TOOL else f'{OPENING}\n{{"name": {json.dumps(choice)}, "arguments":'


def _piece_of_opening(text: str) -> str:
    """Returns the longest beginning of the opening tag that the text ends with."""
    return next((OPENING[:n] for n in range(len(OPENING) - 1, 0, -1) if text.endswith(OPENING[:n])), "")


def _end_of_call(text: str, start: int) -> int:
    """Returns where a call ends: behind its closing tag, which may occur in an argument, too; else with the text."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, _skip_space(text, start + len(OPENING)))
        end = _skip_space(text, end)
    except (ValueError, RecursionError):
        end = start
    if not text.startswith(CLOSING, end):
        end = text.find(CLOSING, end)
    return end + len(CLOSING) if end >= 0 else len(text)


def _skip_space(text: str, start: int) -> int:
    found = _NO_SPACE.search(text, start)
    return found.start() if found else len(text)


def _read_tagged(text: str) -> ToolCall:
    if not text.endswith(CLOSING):
        raise ValueError(f"a call must end with {CLOSING}; it is cut off. Raise `max_tokens`")
    return _create_call(parse_json(text[len(OPENING) : -len(CLOSING)], is_strict=True))


def _read_parsed(value: Any, body: str, *, is_whole: bool) -> Iterator[ToolCall]:
    """Yields the calls that transformers read from `body`, unless it was more lenient than JSON is."""
    if not is_whole:
        raise ValueError("a call must be whole; it is cut off. Raise `max_tokens`")
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        pass  # another notation, which transformers has read
    else:
        parse_json(body, is_strict=True)
    for call in value if isinstance(value, list) else [value]:
        yield _create_call(call.get("function", call) if isinstance(call, dict) else call)


def _create_call(value: Any) -> ToolCall:
    name, arguments = (value.get("name"), value.get("arguments")) if isinstance(value, dict) else (None, None)
    if isinstance(arguments, str) and isinstance(value, dict):
        arguments = parse_json(arguments, is_strict=True)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise ValueError(
            f'a call must be {{"name": text, "arguments": object}}; got {value!r:.80}. Draw another response'
        )
    # numbers beyond a double, and halves of characters, are no JSON that another program would read
    json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    return ToolCall(name=name, args=arguments, id=_new_id(), type="tool_call")


def _create_invalid(text: str, error: Exception) -> InvalidToolCall:
    # LangChain completes the JSON of a piece of a stream: it must not find any here
    args = text if text.lstrip().startswith("<") else f"{OPENING}{text}"
    return InvalidToolCall(name=None, args=args, id=_new_id(), error=str(error), type="invalid_tool_call")


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"
