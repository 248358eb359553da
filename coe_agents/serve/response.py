"""Owns a decision in the form of OpenAI's Responses API: whole, or as the events of a stream."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from coe_agents.serve.completion import Reply

_Item = dict[str, Any]


def to_response(reply: Reply) -> dict[str, Any]:
    """Returns the reply as a `response`.

    Its output is a message with the answer, one with a refusal, or the calls of functions. `coe` holds the numbers of
    the decision.
    """
    return {
        **_head(reply),
        "status": "completed",
        "output": _items(reply),
        "usage": _usage(reply),
        "coe": reply.numbers,
    }


def to_response_events(reply: Reply) -> Iterator[str]:
    """Yields the server-sent events of the same response, which is in the last of them."""
    whole = to_response(reply)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    del begun["coe"]
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for place, item in enumerate(whole["output"]):
        events += _events_of(item, place)
    events.append(("response.completed", {"response": whole}))
    for number, (kind, content) in enumerate(events):
        data = {"type": kind, "sequence_number": number, **content}
        yield f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _head(reply: Reply) -> dict[str, Any]:
    """Returns the fields that every response has; what a request asked for is not repeated but its model."""
    empty = (
        "error",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "previous_response_id",
        "temperature",
        "top_p",
        "user",
    )
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "model": reply.model,
        **dict.fromkeys(empty),
        "metadata": {},
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
    }


def _items(reply: Reply) -> list[_Item]:
    if reply.calls:
        return [_call(call) for call in reply.calls]
    parts: list[_Item] = []
    if reply.refusal is not None:
        parts.append({"type": "refusal", "refusal": reply.refusal})
    if reply.text is not None:  # also for who reads the text alone, and would take "" for the answer
        parts.append({"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []})
    return [{"id": f"msg_{uuid.uuid4().hex}", "type": "message", **_DONE, "role": "assistant", "content": parts}]


_DONE = {"status": "completed"}


def _call(call: Mapping[str, str]) -> _Item:
    said = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call", **_DONE, "call_id": call["id"], **said}


def _events_of(item: _Item, place: int) -> Iterator[tuple[str, _Item]]:
    """Yields the events of one item of the output; each text comes in one piece."""
    where = {"output_index": place, "item_id": item["id"]}
    empty: _Item = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    begun = {**item, "status": "in_progress", **empty}
    yield "response.output_item.added", {"output_index": place, "item": begun}
    if item["type"] == "function_call":
        name = "response.function_call_arguments"
        yield f"{name}.delta", {**where, "delta": item["arguments"]}
        yield f"{name}.done", {**where, "arguments": item["arguments"], "name": item["name"]}
    for number, part in enumerate(item.get("content", ())):
        there = {**where, "content_index": number}
        key = "refusal" if part["type"] == "refusal" else "text"
        name = "response.refusal" if part["type"] == "refusal" else "response.output_text"
        extra: _Item = {} if part["type"] == "refusal" else {"logprobs": []}
        yield "response.content_part.added", {**there, "part": {**part, key: ""}}
        yield f"{name}.delta", {**there, "delta": part[key], **extra}
        yield f"{name}.done", {**there, key: part[key], **extra}
        yield "response.content_part.done", {**there, "part": part}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _usage(reply: Reply) -> dict[str, Any] | None:
    if reply.tokens is None:
        return None
    read, written = reply.tokens
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, **details}
