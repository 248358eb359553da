"""Owns what a caller is told of a decision, in the forms of OpenAI's two APIs: whole, or as the events of a stream."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coe_agents.decision.refusal import refusal
from coe_agents.decision.views import to_numbers
from coe_agents.serve.chat_request import ChatRequest
from coe_agents.types import Fields, JsonObject, add_usages

Refusals = Literal["content", "field"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a caller is told, in whichever API was asked.

    Attributes:
        decision: As `to_public` returns it.
        model: The name of the group.
        request: What it answers.
        refusals: Where why there is no answer stands: in the field "refusal" alone, or in the "content", too.
    """

    decision: Fields
    model: str
    request: ChatRequest
    refusals: Refusals = "content"

    @property
    def calls(self) -> list[dict[str, str]]:
        """The calls to run, each with "id", "name" and, as JSON, "arguments"."""
        calls = list[dict[str, str]]()
        for call in self.decision["calls"] or ():
            arguments = json.dumps(call["args"])
            calls.append({"id": call["id"], "name": call["name"], "arguments": arguments})
        return calls

    @property
    def text(self) -> str | None:
        """What stands where an answer does; None where the group gives calls, or a refusal elsewhere."""
        if self.refusal is not None:
            return self.refusal if self.is_in_content else None
        return None if self.calls else self.decision["answer"]

    @property
    def is_in_content(self) -> bool:
        """Whether a client would take the refusal for an answer that ignores what else the reply says."""
        return self.refusals == "content" and self.refusal is not None

    @property
    def is_cut(self) -> bool:
        """Whether the answer is one that no agent gave whole; who asks must not take it for a whole reply."""
        return self.refusal is None and self.decision.get("answer_end") is not None

    @property
    def refusal(self) -> str | None:
        """Why there is no answer; None where there is one."""
        if self.decision["action"] == "answer":
            return None
        return refusal(self.decision)

    @property
    def tokens(self) -> tuple[int, int] | None:
        """The tokens of all agents, read and written; None where they are not known."""
        total = add_usages(self.decision["tokens"].values())
        read = total["input_tokens"]
        written = total["output_tokens"]
        if not self.decision["tokens"] or read is None or written is None:
            return None
        return read, written

    @property
    def numbers(self) -> JsonObject:
        """The numbers of the decision, the claims of a long answer that is given, and no other text of a response."""
        return to_numbers(self.decision, self.request.ignored)


def to_completion(reply: Reply) -> JsonObject:
    """Returns the reply as a `chat.completion`.

    An answer is the message's content, or its tool calls. Otherwise the message's refusal says why, as does the content
    unless refusals are kept out of it. `coe` holds the numbers of the decision.
    """
    message = {"role": "assistant", **_message(reply)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _end(reply)}
    return {
        **_head(reply, "chat.completion"),
        "choices": [choice],
        "usage": _usage(reply),
        "coe": reply.numbers,
    }


def to_chunks(reply: Reply) -> Iterator[str]:
    """Yields the server-sent events of a `chat.completion.chunk` stream; the last chunk of the choice holds `coe`.

    A refusal of a request that requires a call ends as an error, too: clients that build an object from the calls of a
    stream read nothing else of it.
    """
    head = _head(reply, "chat.completion.chunk")
    if reply.request.with_usage:
        head["usage"] = None

    def chunk(delta: Fields, end: str | None, **numbers: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
        return _event({**head, "choices": [choice], **numbers})

    yield chunk({"role": "assistant", "content": None}, None)
    message = {name: part for name, part in _message(reply).items() if part is not None}
    for place, call in enumerate(message.get("tool_calls", ())):
        call["index"] = place
    yield chunk(message, None)
    yield chunk({}, _end(reply), coe=reply.numbers)
    if reply.request.with_usage:
        yield _event({**head, "choices": [], "usage": _usage(reply)})
    # who awaits a call alone would read none of this, and see no end of it
    if reply.request.must_call and reply.is_in_content:
        error = {
            "message": reply.refusal,
            "type": "refusal",
            "param": "tool_choice",
            "code": "content_filter",
        }
        yield _event({"error": error})
    yield "data: [DONE]\n\n"


def _message(reply: Reply) -> JsonObject:
    message: JsonObject = {"content": reply.text, "refusal": reply.refusal}
    calls = list[JsonObject]()
    for call in reply.calls:
        function = {"name": call["name"], "arguments": call["arguments"]}
        calls.append({"id": call["id"], "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    return message


def _end(reply: Reply) -> str:
    if reply.is_in_content:
        return "content_filter"
    if reply.is_cut:
        return "length"
    return "tool_calls" if reply.calls else "stop"


def _head(reply: Reply, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": reply.model,
    }


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.tokens is None:
        return None
    read, written = reply.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _event(content: Fields) -> str:
    return f"data: {json.dumps(content)}\n\n"


_EMPTY = (
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "previous_response_id",
    "temperature",
    "top_p",
    "user",
)
"""Fields of a response that are there and null: what a request asked for is not repeated."""


def to_response(reply: Reply) -> JsonObject:
    """Returns the reply as a `response`.

    Its output is a message with the answer, one with a refusal, or the calls of functions. `coe` holds the numbers of
    the decision.
    """
    return {
        **_response_head(reply),
        **(_CUT if reply.is_cut else _DONE),
        "output": _items(reply),
        "usage": _response_usage(reply),
        "coe": reply.numbers,
    }


def to_response_events(reply: Reply) -> Iterator[str]:
    """Yields the server-sent events of the same response, which is in the last of them."""
    whole = to_response(reply)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    del begun["coe"]
    events = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for place, item in enumerate(whole["output"]):
        events += _events_of(item, place)
    events.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, content) in enumerate(events):
        data = {"type": kind, "sequence_number": number, **content}
        yield f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _response_head(reply: Reply) -> JsonObject:
    """Returns the fields that every response has; what a request asked for is not repeated but its model."""
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "model": reply.model,
        **dict.fromkeys(_EMPTY),
        "metadata": {},
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
    }


def _items(reply: Reply) -> list[JsonObject]:
    if reply.calls:
        return [_call(call) for call in reply.calls]
    parts = list[JsonObject]()
    if reply.refusal is not None:
        parts.append({"type": "refusal", "refusal": reply.refusal})
    # also for who reads the text alone, and would take "" for the answer
    if reply.text is not None:
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        parts.append(text)
    message = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        **_DONE,
        "role": "assistant",
        "content": parts,
    }
    return [message]


_DONE = {"status": "completed"}
_CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def _call(call: Mapping[str, str]) -> JsonObject:
    return {
        "id": f"fc_{uuid.uuid4().hex}",
        "type": "function_call",
        **_DONE,
        "call_id": call["id"],
        "name": call["name"],
        "arguments": call["arguments"],
    }


def _events_of(item: JsonObject, place: int) -> Iterator[tuple[str, JsonObject]]:
    """Yields the events of one item of the output; each text comes in one piece."""
    begun = {**item, "status": "in_progress"}
    is_call = item["type"] == "function_call"
    if is_call:
        begun["arguments"] = ""
    else:
        begun["content"] = []
    yield "response.output_item.added", {"output_index": place, "item": begun}

    where = {"output_index": place, "item_id": item["id"]}
    if is_call:
        name = "response.function_call_arguments"
        yield f"{name}.delta", {**where, "delta": item["arguments"]}
        yield f"{name}.done", {**where, "arguments": item["arguments"], "name": item["name"]}
    for number, part in enumerate(item.get("content", ())):
        there = {**where, "content_index": number}
        key = "text"
        name = "response.output_text"
        logprobs: JsonObject = {"logprobs": []}
        if part["type"] == "refusal":
            key = "refusal"
            name = "response.refusal"
            logprobs = {}
        yield "response.content_part.added", {**there, "part": {**part, key: ""}}
        yield f"{name}.delta", {**there, "delta": part[key], **logprobs}
        yield f"{name}.done", {**there, key: part[key], **logprobs}
        yield "response.content_part.done", {**there, "part": part}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _response_usage(reply: Reply) -> JsonObject | None:
    if reply.tokens is None:
        return None
    read, written = reply.tokens
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
