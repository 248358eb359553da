"""Callers who send without end, too slowly, or do not read: before the key is checked, and after."""

import asyncio
import socket
import time
from contextlib import contextmanager

import pytest
from starlette.responses import Response

from coe_agents.serve import connection, server
from tests.serve.groups import AGREEING, create_group
from tests.serve.live import serving, serving_app

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def connected(address, **options):
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as caller:
        caller.settimeout(20)
        for name, value in options.items():
            caller.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        caller.connect((host, int(port)))
        yield caller


def ends(caller):
    """Whether the server drops the connection."""
    try:
        while caller.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize("part", [b"a" * 10_000, b"x: y\r\n" * 2000], ids=["a long header", "many headers"])
def test_a_head_without_end_is_refused(part):
    with serving(create_group(*AGREEING), key="k") as address, connected(address) as caller:
        caller.sendall(HEAD + (b"x: " if part.startswith(b"a") else b""))
        n_sent = 0
        try:
            for _ in range(1000):
                caller.sendall(part)
                n_sent += 1
        except OSError:
            pass
        assert n_sent < 1000  # not 10 MB


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", HEAD])
@pytest.mark.parametrize("asks_before", [False, True])
def test_a_head_that_does_not_end_is_not_waited_for(sent, asks_before, monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_HEAD", 0.2)
    with serving(create_group(*AGREEING)) as address, connected(address) as caller:
        if asks_before:
            caller.sendall(HEAD + b"\r\n")
            assert caller.recv(65_536)
        caller.sendall(sent or b"\r" * asks_before)  # between two requests nothing is due yet
        assert ends(caller)


def test_a_head_that_arrives_byte_by_byte_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_HEAD", 0.2)
    with serving(create_group(*AGREEING)) as address, connected(address) as caller:
        start = time.monotonic()
        caller.settimeout(0.02)
        while not ends(caller):
            assert time.monotonic() < start + 20
            caller.send(b"G")


def test_an_answer_takes_its_time_and_the_connection_is_kept(monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_HEAD", 0.1)

    async def slow(scope, receive, send):
        await asyncio.sleep(0.4 if scope["path"] == "/slow" else 0)
        await Response("done")(scope, receive, send)

    with serving_app(slow) as address, connected(address) as caller:
        for path in (b"/slow", b"/", b"/slow"):
            caller.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert caller.recv(65_536).startswith(b"HTTP/1.1 200")
            time.sleep(0.3)


def test_a_caller_who_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_READ", 0.2)
    inside = []

    async def talks(scope, receive, send):
        if scope["type"] != "http":
            return
        inside.append(scope)
        try:
            await Response(b" " * 20_000_000)(scope, receive, send)
        finally:
            inside.pop()

    with serving_app(talks) as address, connected(address, SO_RCVBUF=4096) as caller:
        caller.sendall(HEAD + b"\r\n")
        for is_inside in (True, False):
            start = time.monotonic()
            while bool(inside) is not is_inside and time.monotonic() < start + 10:
                time.sleep(0.01)
            assert bool(inside) is is_inside
        assert len(receive_all(caller)) < 20_000_000


def receive_all(caller):
    received = bytearray()
    try:
        while part := caller.recv(1 << 20):
            received += part
    except OSError:
        pass
    return received


def test_an_idle_connection_is_kept_for_longer_than_clients_keep_it():
    assert server.create_server(None, grace=1).config.timeout_keep_alive > 60
