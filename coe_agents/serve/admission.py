"""Owns how much is taken on at a time: the requests in flight, and the size of each."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from coe_agents.files import parse_json
from coe_agents.serve.api_error import ApiError, caller_gone
from coe_agents.text import quantity

_LONGEST_UPLOAD = 30.0
"""Seconds in which a body must have arrived."""
_LONGEST_WAIT = 60
"""Seconds; OpenAI's clients follow no `Retry-After` above it."""

_CLOSE = {"connection": "close"}
"""Where a body is left unread: the rest of it would still arrive."""


class Admission:
    """Lets so many questions in at a time, and answers 429 to further ones.

    Args:
        app: What answers the questions.
        most: How many at a time, streams included.

    Attributes:
        n_inside: How many are being answered now.
    """

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app, self._most = app, most
        self.n_inside = 0
        self._seconds = 1.0  # a running mean

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; only questions, which are sent by POST, are counted."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if self.n_inside >= self._most:
            wait = min(_LONGEST_WAIT, max(1, math.ceil(self._seconds)))
            answered = quantity(self._most, "question is", "questions are")
            refusal = ApiError(
                429,
                f"{answered} being answered, as many as the operator allows. Ask again in {wait} s",
                code="too_many_requests",
                headers={"retry-after": str(wait)},
            )
            await refusal.to_response()(scope, receive, send)
            return
        start = time.monotonic()
        self.n_inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.n_inside -= 1
            self._seconds += 0.1 * (time.monotonic() - start - self._seconds)


async def read_object(request: Request, *, max_bytes: int) -> Mapping[str, Any]:
    """Returns the JSON object in a request's body.

    Raises:
        ApiError: If the body is too large, arrives too slowly, or is no JSON object.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_LONGEST_UPLOAD):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise ApiError(
                        413, f"a request must have at most {max_bytes} bytes. Shorten the conversation", headers=_CLOSE
                    )
    except TimeoutError:
        raise ApiError(
            408, f"a request must arrive within {_LONGEST_UPLOAD:g} s. Send it again", headers=_CLOSE
        ) from None
    except ClientDisconnect:
        raise caller_gone() from None
    try:
        content = parse_json(bytes(body), is_strict=True)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ApiError(400, "the body must be a JSON object in which each name appears once. Correct it")
    return content
