"""Owns `ContextCheck`: on a LangGraph server, it refuses a context that no graph of ours takes."""

import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, TypeAlias

from coe_agents.graph.context import CoEContext

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_WITH_CONTEXT = ("/runs", "/assistants", "/commands", "/mcp")
"""In the path of each request that may set a context."""


class ContextCheck:
    """ASGI middleware that answers 422 to a request with a context that is no `CoEContext`, and says why.

    A LangGraph server drops the keys that a graph's context does not have before the graph sees them, so that a
    misspelt threshold would go unnoticed. Name an app with this middleware as `http.app` in `langgraph.json`, if all
    graphs there have this context: `Starlette(middleware=[Middleware(ContextCheck)])`.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        is_change = scope["type"] == "http" and scope["method"] in ("POST", "PATCH", "PUT")
        if not is_change or not any(part in scope["path"] for part in _WITH_CONTEXT):
            await self.app(scope, receive, send)
            return
        received = list[Message]()
        while not received or received[-1].get("more_body"):
            received.append(await receive())
        problem = _problem_of(b"".join(message.get("body", b"") for message in received))
        if problem is None:
            waiting = iter(received)

            async def receive_again() -> Message:
                return next(waiting, None) or await receive()

            await self.app(scope, receive_again, send)
            return
        body = json.dumps({"detail": problem}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 422, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _problem_of(body: bytes) -> str | None:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):  # the server's own error says more
        return None
    for context in _contexts(given):
        try:
            CoEContext(**context)
        except (TypeError, ValueError) as error:
            return str(error)
    return None


def _contexts(given: Any) -> Iterator[dict[str, Any]]:
    """Yields the contexts of a request, of each request of a batch, or of an RPC's parameters."""
    for one in given if isinstance(given, list) else [given]:
        for holder in (one, one.get("params")) if isinstance(one, dict) else ():
            if isinstance(holder, dict) and isinstance(holder.get("context"), dict):
                yield holder["context"]
