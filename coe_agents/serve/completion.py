"""Owns what a caller is told of a decision, and its form as a chat completion: whole, or as the chunks of a stream."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coe_agents.decision.refusal import refusal
from coe_agents.decision.views import to_numbers
from coe_agents.types import add_usages

Refusals = Literal["content", "field"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a caller is told, in whichever API was asked.

    Attributes:
        decision: As `to_public` returns it.
        model: The name of the group.
        ignored: The options of the request that had no effect.
        with_usage: Whether a stream of chunks ends with the tokens.
        refusals: Where why there is no answer stands: in the field "refusal" alone, or in the "content", too.
    """

    decision: Mapping[str, Any]
    model: str
    ignored: tuple[str, ...] = ()
    with_usage: bool = False
    refusals: Refusals = "content"

    @property
    def calls(self) -> list[dict[str, str]]:
        """The calls to run, each with "id", "name" and, as JSON, "arguments"."""
        calls = self.decision["calls"] or []
        return [{"id": call["id"], "name": call["name"], "arguments": json.dumps(call["args"])} for call in calls]

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
    def refusal(self) -> str | None:
        """Why there is no answer; None where there is one."""
        return None if self.decision["action"] == "answer" else refusal(self.decision)

    @property
    def tokens(self) -> tuple[int, int] | None:
        """The tokens of all agents, read and written; None where they are not known."""
        total = add_usages(self.decision["tokens"].values())
        read, written = total["input_tokens"], total["output_tokens"]
        return (read, written) if self.decision["tokens"] and read is not None and written is not None else None

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the decision, and no text of a response."""
        return to_numbers(self.decision, self.ignored)


def to_completion(reply: Reply) -> dict[str, Any]:
    """Returns the reply as a `chat.completion`.

    An answer is the message's content, or its tool calls. Otherwise the message's refusal says why, as does the content
    unless refusals are kept out of it. `coe` holds the numbers of the decision.
    """
    message = {"role": "assistant", **_said(reply)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _end(reply)}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply), "coe": reply.numbers}


def to_chunks(reply: Reply) -> Iterator[str]:
    """Yields the server-sent events of a `chat.completion.chunk` stream; the last chunk of the choice holds `coe`."""
    head = _head(reply, "chat.completion.chunk") | ({"usage": None} if reply.with_usage else {})
    said = {name: part for name, part in _said(reply).items() if part is not None}
    if calls := said.get("tool_calls"):
        said["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
    for delta, end in (({"role": "assistant", "content": None}, None), (said, None), ({}, _end(reply))):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
        yield _event({**head, "choices": [choice], **({"coe": reply.numbers} if end else {})})
    if reply.with_usage:
        yield _event({**head, "choices": [], "usage": _usage(reply)})
    yield "data: [DONE]\n\n"


def _said(reply: Reply) -> dict[str, Any]:
    said: dict[str, Any] = {"content": reply.text, "refusal": reply.refusal}
    if reply.calls:
        said["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {name: call[name] for name in ("name", "arguments")}}
            for call in reply.calls
        ]
    return said


def _end(reply: Reply) -> str:
    if reply.is_in_content:
        return "content_filter"
    return "tool_calls" if reply.calls else "stop"


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": reply.model}


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.tokens is None:
        return None
    read, written = reply.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _event(content: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
