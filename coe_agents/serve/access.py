"""Owns what happens around each request: who may ask, and how much at a time; and the log, without question or answer.

A page of another site can make a browser send requests to a server on this machine. It is recognised by its
`Origin`, and by its `Host` where it has its own name resolve to this machine.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import math
import re
import time
import traceback
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coe_agents.checks import require
from coe_agents.files import parse_strict_object
from coe_agents.serve.api_error import ApiError, caller_gone
from coe_agents.text import quantity
from coe_agents.types import Fields, JsonObject

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_HOST = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<address>[\da-fA-F:.]+)\])(?::\d{1,5})?", re.ASCII)
_OPEN = "/health"
"""Needs no key: it shows nothing."""
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PROTECTION = [
    (b"content-security-policy", _POLICY),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
_LONGEST_UPLOAD = 30.0
"""Seconds in which a body must have arrived."""
_LONGEST_WAIT = 60
"""Seconds; OpenAI's clients follow no `Retry-After` above it."""
_CLOSE = {"connection": "close"}
"""Where a body is left unread: the rest of it would still arrive."""


class Guard:
    """Refuses requests under a foreign name, from foreign pages, or without the key; restricts what browsers do.

    Args:
        app: What answers the others.
        hosts: The names of the server, without ports.
        key: What a caller must send as `Authorization: Bearer KEY`, or a browser as the password of any user; None
            lets everybody ask. A blank one is a ValueError.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], key: str | None) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}
        must = '"key" must not be blank, as everybody could send it'
        advice = "Set it, or pass None to let everybody ask"
        require(key is None or bool(key.strip()), must, key, advice)
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_PROTECTION]}
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            response = error.to_response()
            response.headers["connection"] = "close"  # its body is not read
            await response(scope, receive, send_protected)
            return
        await self._app(scope, receive, send_protected)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            raise ApiError(
                400,
                'the header "Host" must be a name of this server. The operator adds one with --allow-host',
            )
        if "transfer-encoding" in headers and "content-length" in headers:
            raise ApiError(
                400,
                "the length of a request must be given once. Omit Content-Length or Transfer-Encoding",
            )
        for origin in headers.getlist("origin"):
            _, _, host = origin.partition("://")
            if host.lower() != hosts[0].lower():
                raise ApiError(
                    403, "a page of another site must not ask this server. Open its own page at /"
                )
        if self._key is None or scope["path"] == _OPEN:
            return
        if not self._has_key(self._key, headers.get("authorization", "")):
            # a browser asks its user for the key of the page
            scheme = 'Basic realm="coe-agents", charset="UTF-8"'
            if scope["path"].startswith("/v1/"):
                scheme = "Bearer"
            fault = "the key is missing or wrong. Send it as the header Authorization: Bearer KEY"
            raise ApiError(401, fault, code="invalid_api_key", headers={"www-authenticate": scheme})

    @staticmethod
    def _has_key(key: bytes, authorization: str) -> bool:
        scheme, _, text = authorization.partition(" ")
        sent = text.strip(" \t").encode("latin-1")
        if scheme.lower() == "basic":
            try:
                user_and_password = base64.b64decode(sent, validate=True)
            except binascii.Error:
                return False
            _, _, sent = user_and_password.partition(b":")
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(sent, key)


def _name_of(host: str) -> str | None:
    """Returns the name in a header "Host", without the port; None where it holds no name."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    name = match["name"] or match["address"]
    return name.lower()


class Admission:
    """Lets so many questions, sent by POST, in at a time, streams included, and answers 429 to further ones."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most
        self.n_inside = 0
        self._seconds = 1.0  # a running mean

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            seconds = time.monotonic() - start
            self._seconds += 0.1 * (seconds - self._seconds)


async def read_object(request: Request, *, max_bytes: int) -> Fields:
    """Returns the JSON object in a request's body; raises `ApiError` where it is too large, too slow or none.

    It is parsed in a thread: other callers are answered meanwhile.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_LONGEST_UPLOAD):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    must = (
                        f"a request must have at most {max_bytes} bytes. Shorten the conversation"
                    )
                    raise ApiError(413, must, headers=_CLOSE)
    except TimeoutError:
        must = f"a request must arrive within {_LONGEST_UPLOAD:g} s. Send it again"
        raise ApiError(408, must, headers=_CLOSE) from None
    except ClientDisconnect:
        raise caller_gone() from None
    content = await asyncio.to_thread(parse_strict_object, bytes(body))
    if content is None:
        raise ApiError(
            400,
            "the body must be a JSON object of Unicode text and finite numbers in which each name appears once. "
            "Correct it",
        )
    return content


LOG = logging.getLogger("coe_agents.serve")
_METHODS = ("GET", "POST", "HEAD", "OPTIONS")
_OUTCOME = "coe_agents.outcome"
NoteRequest = Callable[[str, int, float], None]


class RequestLog:
    """Logs method, address, status, seconds, and the action and numbers of a decision; lets no exception through.

    An address that is not among `paths` is not logged: it may hold anything. `note_request` is passed the address,
    status and seconds of each request, too.
    """

    def __init__(
        self, app: ASGIApp, *, paths: frozenset[str], note_request: NoteRequest | None = None
    ) -> None:
        self._app = app
        self._paths = paths
        self._note_request = note_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.monotonic()
        status = 0
        outcome = scope[_OUTCOME] = JsonObject()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        except Exception as error:
            log_failure(error)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "(another address)"
            method = scope["method"] if scope["method"] in _METHODS else "(another method)"
            words = "".join(f" {name} {value}" for name, value in outcome.items())
            seconds = time.monotonic() - start
            LOG.info("%s %s %d %.2f s%s", method, path, status, seconds, words)
            if self._note_request is not None:
                self._note_request(path, status, seconds)


def note_decision(scope: Scope, decision: Fields) -> None:
    """Adds the action and the numbers of a decision to the line of a request."""
    outcome = scope.get(_OUTCOME, {})
    outcome["action"] = decision["action"]
    # too few agents look certain
    if decision["coe"] is not None and decision["regime"] is not None:
        outcome.update(regime=decision["regime"], coe=f"{decision['coe']:.3f}")
    if decision["failed_agents"]:
        outcome["failed"] = len(decision["failed_agents"])


def log_failure(error: BaseException) -> None:
    """Logs the kind of an error, and where it was raised; its message may quote a response, or hold a key."""
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    LOG.error("%s\n%s", type(error).__name__, frames)
