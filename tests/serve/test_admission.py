import asyncio

import httpx
import pytest

from coe_agents.serve import access, create_app
from tests.serve.groups import (
    AGREEING,
    HeldAgent,
    SlowAgent,
    body_of,
    client_of,
    create_group,
    group_of,
)
from tests.waiting import until


async def test_questions_beyond_the_bound_are_refused_and_the_others_answered():
    agents = [HeldAgent(name, ["x"]) for name in "ab"]
    group = group_of(*agents)
    async with client_of(group, max_requests=3) as client:
        posts = [client.post("/v1/chat/completions", json=body_of()) for _ in range(5)]
        asked = [asyncio.create_task(post) for post in posts]
        assert (await client.get("/health")).status_code == 200
        await until(lambda: sum(task.done() for task in asked) == 2)
        for agent in agents:
            agent.let.set()
        responses = await asyncio.gather(*asked)
        assert sorted(response.status_code for response in responses) == [200, 200, 200, 429, 429]
        refused = next(response for response in responses if response.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert (await client.post("/v1/chat/completions", json=body_of())).status_code == 200


async def parts(count):
    for _ in range(count):
        yield b" " * 100


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/events"])
async def test_a_large_request_is_refused_before_all_of_it_is_read(path):
    async with client_of(create_group(*AGREEING), max_bytes=1000) as client:
        assert (await client.post(path, content=b" " * 1001)).status_code == 413
        assert (await client.post(path, content=parts(1000))).status_code == 413
        assert (await client.post(path, content=parts(10))).status_code == 400


async def test_a_request_that_arrives_too_slowly_is_refused(monkeypatch):
    async def slow():
        yield b"{"
        await asyncio.sleep(600)

    async with client_of(create_group(*AGREEING), max_requests=1) as client:
        with monkeypatch.context() as hurried:
            hurried.setattr(access, "_LONGEST_UPLOAD", 0.05)
            assert (await client.post("/events", content=slow())).status_code == 408
        assert (await client.post("/v1/chat/completions", json=body_of())).status_code == 200


async def test_a_caller_who_hangs_up_stops_the_agents():
    agent = SlowAgent("a", ["x"], seconds=600)
    app = create_app(group_of(agent))
    sent = asyncio.Event()

    async def receive():
        if not sent.is_set():
            sent.set()
            return {
                "type": "http.request",
                "body": httpx.Request("POST", "http://x", json=body_of()).content,
            }
        await agent.started.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b""}
    scope["headers"] = [(b"host", b"127.0.0.1")]
    async with asyncio.timeout(60):
        await app(scope, receive, send)
    assert (agent.n_started, agent.n_ended) == (1, 0)
