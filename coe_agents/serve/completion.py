"""Owns a decision as a chat completion: whole, or as the chunks of a stream."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coe_agents.decision.views import to_numbers
from coe_agents.serve.refusal import refusal
from coe_agents.types import add_usages


def to_completion(decision: Mapping[str, Any], *, model: str, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the decision as a `chat.completion`.

    An answer is the message's content, or its tool calls. Otherwise the content is null, and the message's refusal says
    why. `coe` holds the numbers of the decision, which is as `to_public` returns it, and no text of a response; it
    repeats the options of the request that are `ignored`.
    """
    message = {"role": "assistant", **_said(decision)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _end(decision)}
    return {
        **_head(model, "chat.completion"),
        "choices": [choice],
        "usage": _usage(decision),
        "coe": to_numbers(decision, ignored),
    }


def to_chunks(
    decision: Mapping[str, Any], *, model: str, ignored: Sequence[str] = (), with_usage: bool = False
) -> Iterator[str]:
    """Yields the server-sent events of a `chat.completion.chunk` stream; the last chunk of the choice holds `coe`."""
    head = _head(model, "chat.completion.chunk") | ({"usage": None} if with_usage else {})
    said = {name: part for name, part in _said(decision).items() if part is not None}
    if calls := said.get("tool_calls"):
        said["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
    for delta, end in (({"role": "assistant", "content": None}, None), (said, None), ({}, _end(decision))):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
        numbers = {"coe": to_numbers(decision, ignored)} if end else {}
        yield _event({**head, "choices": [choice], **numbers})
    if with_usage:
        yield _event({**head, "choices": [], "usage": _usage(decision)})
    yield "data: [DONE]\n\n"


def _said(decision: Mapping[str, Any]) -> dict[str, Any]:
    if decision["action"] == "answer":
        if calls := decision["calls"]:
            return {"content": None, "refusal": None, "tool_calls": [_to_call(call) for call in calls]}
        return {"content": decision["answer"], "refusal": None}
    return {"content": None, "refusal": refusal(decision)}


def _to_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["args"])}
    return {"id": call["id"], "type": "function", "function": function}


def _end(decision: Mapping[str, Any]) -> str:
    return "tool_calls" if decision["calls"] else "stop"


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _usage(decision: Mapping[str, Any]) -> dict[str, int] | None:
    total = add_usages(decision["tokens"].values())
    prompt, written = total["input_tokens"], total["output_tokens"]
    if not decision["tokens"] or prompt is None or written is None:
        return None
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def _event(content: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
