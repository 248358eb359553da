"""Callers who send without end, too slowly, or do not read: before the key is checked, and after."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from starlette.responses import Response

from coe_agents.serve import http_server
from tests.serve.groups import AGREEING, create_group
from tests.serve.live import serving, serving_app

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def connected(address, **options):
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as caller:
        caller.settimeout(60)
        for name, value in options.items():
            caller.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        caller.connect((host, int(port)))
        yield caller


@pytest.mark.parametrize(
    "part", [b"a" * 10_000, b"x: y\r\n" * 2000], ids=["a long header", "many headers"]
)
def test_a_head_without_end_is_refused(part):
    with serving(create_group(*AGREEING), key="k") as address, connected(address) as caller:
        caller.sendall(HEAD + (b"x: " if part.startswith(b"a") else b""))
        n_sent = 0
        with suppress(OSError):
            for _ in range(1000):
                caller.sendall(part)
                n_sent += 1
        assert n_sent < 1000  # not 10 MB


@pytest.mark.parametrize(
    ("sent", "asks_before"), [(b"", False), (HEAD, False), (b"GET /health HT", True)]
)
def test_a_head_that_does_not_end_is_not_waited_for(sent, asks_before, monkeypatch):
    if not asks_before:
        monkeypatch.setattr(http_server, "LONGEST_HEAD", 0.2)
    with serving(create_group(*AGREEING)) as address, connected(address) as caller:
        if asks_before:  # and has all the time for that
            caller.sendall(HEAD + b"\r\n")
            assert caller.recv(65_536)
            monkeypatch.setattr(http_server, "LONGEST_HEAD", 0.2)
        with suppress(
            ConnectionError
        ):  # it may end before; a time-out would mean that it does not end
            caller.sendall(sent)
            while caller.recv(65_536):
                pass


def test_an_answer_takes_its_time_and_the_connection_is_kept(monkeypatch):
    async def slow(scope, receive, send):
        monkeypatch.setattr(
            http_server, "LONGEST_HEAD", 0.1
        )  # the first head had all the time, and is here
        await asyncio.sleep(0.4 if scope["path"] == "/slow" else 0)
        await Response("done")(scope, receive, send)

    with serving_app(slow) as address, connected(address) as caller:
        for path in (b"/slow", b"/", b"/slow"):
            caller.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"done"):  # it may arrive in parts
                part = caller.recv(65_536)
                assert part
                answer += part
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.3)


def test_a_caller_who_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr(http_server, "LONGEST_READ", 0.2)
    lost = threading.Event()

    class Noted(http_server.Connection):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr(http_server, "Connection", Noted)

    async def talks(scope, receive, send):
        if scope["type"] == "http":
            await Response(b" " * 20_000_000)(scope, receive, send)

    with serving_app(talks) as address, connected(address, SO_RCVBUF=4096) as caller:
        caller.sendall(HEAD + b"\r\n")
        assert lost.wait(60)
        caller.settimeout(1)  # what is left in the kernel's buffers may come very slowly
        assert len(receive_all(caller)) < 20_000_000


def receive_all(caller):
    received = bytearray()
    with suppress(ConnectionError, TimeoutError):
        while part := caller.recv(1 << 20):
            received += part
    return received


@pytest.mark.parametrize(
    "sent",
    [
        # a proxy that reads the length would pass the second request as part of the first
        b"Host: 127.0.0.1\r\nContent-Length: 45\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + HEAD
        + b"\r\n",
        b"Host: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
        b"Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n" + b" " * 0xFFFFF,
    ],
    ids=["two lengths", "another name", "too large"],
)
def test_after_a_request_that_was_not_read_the_connection_ends(sent):
    with serving(create_group(*AGREEING)) as address, connected(address) as caller:
        caller.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + sent)
        assert receive_all(caller).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"X: " + b"x" * 65_000 + b"\r\n", b"200"),
        (b"X: " + b"x" * 65_600 + b"\r\n", b"400"),  # in one piece, which h11 takes
        (b"X: a\r\n b: c\r\n", b"400"),
    ],
    ids=["below 64 KiB", "above", "folded"],
)
def test_a_head_has_64_kib_and_no_folded_header(headers, status):
    with serving(create_group(*AGREEING)) as address:
        with connected(address) as caller:
            caller.sendall(HEAD + headers + b"Connection: close\r\n\r\n")
            assert receive_all(caller).startswith(b"HTTP/1.1 " + status)
        with connected(address) as caller:  # also where the head is behind another request
            caller.sendall(HEAD + b"\r\n" + HEAD + headers + b"Connection: close\r\n\r\n")
            assert bytes(receive_all(caller)).count(b"HTTP/1.1 200") == 1 + (status == b"200")
