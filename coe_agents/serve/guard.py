"""Owns who may ask: the names under which the server is asked, the pages that may ask it, and the key.

A page of another site can make a browser send requests to a server on this machine. It is recognised by its
`Origin`, and by its `Host` where it has its own name resolve to this machine.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coe_agents.serve.api_error import ApiError

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


class Guard:
    """Refuses requests under a foreign name, from foreign pages, or without the key; restricts what browsers do.

    Args:
        app: What answers the others.
        hosts: The names of the server, without ports.
        key: What a caller must send as `Authorization: Bearer KEY`, or a browser as the password of any user; None
            lets everybody ask.

    Raises:
        ValueError: If the key is blank.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], key: str | None) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}
        if key is not None and not key.strip():
            raise ValueError(
                '"key" must not be blank; everybody could send it. Set it, or pass None to let everybody ask'
            )
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
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
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            raise ApiError(
                400, 'the header "Host" must be a name of this server. The operator adds one with --allow-host'
            )
        if "transfer-encoding" in headers and "content-length" in headers:
            raise ApiError(400, "the length of a request must be given once. Omit Content-Length or Transfer-Encoding")
        if any(origin.partition("://")[2].lower() != hosts[0].lower() for origin in origins):
            raise ApiError(403, "a page of another site must not ask this server. Open its own page at /")
        if self._key is not None and scope["path"] != _OPEN and not self._has_key(headers.get("authorization", "")):
            scheme = "Bearer" if scope["path"].startswith("/v1/") else 'Basic realm="coe-agents", charset="UTF-8"'
            raise ApiError(
                401,
                "the key is missing or wrong. Send it as the header Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"www-authenticate": scheme},
            )

    def _has_key(self, authorization: str) -> bool:
        scheme, _, sent = authorization.partition(" ")
        given = sent.strip(" \t").encode("latin-1")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._key or b"")


def _name_of(host: str) -> str:
    """Returns the name in a `Host` header, in lower case and without the port; "" if it is malformed."""
    found = _HOST.fullmatch(host)
    return (found["name"] or found["address"]).lower() if found else ""
