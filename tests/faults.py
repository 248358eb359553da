"""Servers that fail, each in its own way; what is not broken is answered as `Served` does."""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers import TOKENS, Served, running, write

KEY = "sk-planted-0123456789abcdef"


def error(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


OVERFLOW = "This model's maximum context length is 64 tokens. However, you requested 90 tokens."
WEB = {"media": "text/html"}
REPLIES: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "401": (401, error(f"Incorrect API key provided: {KEY}", code="invalid_api_key"), {}),
    "404": (404, error("The model `served` does not exist.", code=404), {}),
    "429 with Retry-After": (429, error("Slow down"), {"Retry_After": "60"}),
    "429 soon": (429, error("Slow down"), {"Retry_After": "0.4"}),
    "429 without": (429, error("Slow down"), {}),
    "no credit": (429, error("You exceeded your current quota", code="insufficient_quota"), {}),
    "500": (500, b"<html>" + b"x" * 1_000_000, WEB),
    "502": (502, b"<html>Bad Gateway</html>", WEB),
    "503": (503, error("Service Unavailable"), {}),
    "504": (504, b"<html>Gateway Time-out</html>", WEB),
    "context": (400, error(OVERFLOW, code=400), {}),
    "invalid JSON": (200, b'{"id": "1", "choices": [{"index"', {}),
    "a web page": (200, b"<html>Welcome</html>", WEB),
    "an error with 200": (200, error("overloaded"), {}),
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"


class Faulty(Served):
    """Fails as its `fault` says, the first `times` requests, or all of them."""

    def __init__(self, fault: str, *, times: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.fault = fault
        self.times = times

    def handle(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if self.times is not None and len(self.requests) > self.times:
            self.fault = ""
        if self.fault in REPLIES:
            status, content, headers = REPLIES[self.fault]
            write(handler, status, content, **headers)
        elif self.fault == "reset in mid-answer":
            handler.wfile.write(HEAD + b'{"id')
            # closed so, the client gets a reset instead of an end
            handler.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            handler.connection.shutdown(socket.SHUT_RD)
            handler.connection.close()
        elif self.fault == "time-out":
            self.closing.wait(120)
        elif self.fault == "drip":  # a byte in time, over and over: no single read is late
            handler.wfile.write(HEAD)
            while not self.closing.wait(0.05):
                handler.wfile.write(b" ")
        else:
            super().handle(handler, body)

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, reply = super().answer(body)
        match self.fault:
            case "empty choices":
                reply["choices"] = []
            case "null choices":
                reply["choices"] = None
            case "missing log-probabilities":
                reply["choices"][-1]["logprobs"] = None
            case "NaN log-probability":
                reply["choices"][-1]["logprobs"] = {
                    "content": [{**TOKENS[0], "logprob": float("nan")}]
                }
        return status, reply


@contextmanager
def failing(fault: str, **options: Any) -> Iterator[Faulty]:
    if fault != "refused":
        with running(Faulty(fault, **options)) as state:
            yield state
        return
    with socket.socket() as taken:  # bound and not listening: nobody else answers there
        taken.bind(("127.0.0.1", 0))
        state = Faulty(fault)
        state.url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        yield state
