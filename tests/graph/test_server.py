"""`ContextCheck`: a LangGraph server drops unknown keys of a context; this refuses them. See `tests/serving`, too."""

import json

import httpx
import pytest

from coe_agents.graph.server import ContextCheck


async def echo(scope, receive, send):
    """An app that returns the body it receives, read in pieces."""
    body = b""
    more = True
    while more:
        message = await receive()
        body = body + message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def post(path, given):
    transport = httpx.ASGITransport(app=ContextCheck(echo))
    content = given if isinstance(given, bytes) else json.dumps(given).encode()
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        return await client.post(path, content=content)


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/runs/wait", {"context": {"max_co": 0.4}}),
        ("/threads/1/runs/stream", {"context": {"max_coe": 0.4, "max_co": 0.4}}),
        ("/runs/batch", [{"context": {"max_coe": 0.4}}, {"context": {"max_co": 0.4}}]),
        ("/mcp", {"method": "tools/call", "params": {"name": "a", "context": {"max_co": 0.4}}}),
    ],
)
async def test_an_unknown_key_is_refused(path, given):
    response = await post(path, given)
    assert response.status_code == 422
    assert response.json()["detail"]


@pytest.mark.parametrize("value", ["true", "1" + "0" * 400, "[" * 300 + "]" * 300])
async def test_a_value_that_is_no_threshold_is_refused(value):
    response = await post("/runs/wait", b'{"context": {"max_coe": %s}}' % value.encode())
    assert response.status_code == 422
    assert len(response.content) < 300


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/runs/wait", {"context": {"max_coe": 0.4}, "input": {"context": {"theirs": 1}}}),
        ("/runs/wait", b""),
        ("/runs/wait", b'{"context": ' + b"[" * 100_000),
        ("/store/items", {"context": {"theirs": 1}}),
    ],
)
async def test_anything_else_reaches_the_server_unchanged(path, given):
    response = await post(path, given)
    assert response.status_code == 200
    assert response.content == (given if isinstance(given, bytes) else json.dumps(given).encode())
