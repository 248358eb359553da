"""Many requests: all are answered, none with another's answer, and memory stays flat."""

import asyncio
import random
import time

import httpx
import psutil
import pytest

from benchmarks.concurrency import NAMES, QUESTIONS, SlowAgent, fails
from tests.serve.groups import body_of, group_of
from tests.serve.live import CONFIG, command, serving
from tests.servers import Served, running


def client_at(address):
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=address, limits=limits, timeout=120)


async def ask(client, question, refused=None):
    """Asks until the server takes the question, waiting as it says; returns the reply, and how often it was refused.

    The first time that it is refused, it sets the event `refused`.
    """
    n_refused = 0
    while (response := await client.post("/v1/chat/completions", json=body_of(question))).status_code == 429:
        n_refused += 1
        if refused is not None:
            refused.set()
        await asyncio.sleep(float(response.headers["retry-after"]) * random.uniform(1.0, 1.5))
    assert response.status_code == 200, response.text
    return response.json(), n_refused


def check(question, reply):
    """Asserts that a reply is about the question, and the right one for the agents that fail at it."""
    failed = [name for name in NAMES if fails(name, question)]
    assert sorted(reply["coe"]["failed_agents"]) == failed
    message = reply["choices"][0]["message"]
    if len(failed) < 2:
        assert (message["content"], message["refusal"]) == (question, None)
    else:
        assert message["content"] is None
        assert message["refusal"].startswith("No answer: too few agents answered.")


@pytest.mark.slow
async def test_200_at_once_with_failing_agents_are_all_answered_and_none_mixed():
    group = group_of(*map(SlowAgent, NAMES), max_coe=100.0)
    with serving(group) as address:
        async with client_at(address) as client:
            start = time.perf_counter()
            replies = await asyncio.gather(*(ask(client, question) for question in QUESTIONS))
            print(f"\n{len(replies)} questions at once: all answered in {time.perf_counter() - start:.2f} s")
    assert not any(n_refused for _, n_refused in replies)
    for question, (reply, _) in zip(QUESTIONS, replies, strict=True):
        check(question, reply)
    assert sum(len(reply["coe"]["failed_agents"]) for reply, _ in replies) > 40


@pytest.mark.slow
async def test_memory_is_flat_over_2000_requests(tmp_path):
    """Answers, refusals, streams, events, limits of all kinds, and requests that are refused."""
    file, sizes = tmp_path / "coe.toml", []
    with running(Served(("Paris", "It is Paris.", "Lyon"))) as model:
        file.write_text(CONFIG.format(url=model.url, max_coe=1.0))
        with command("--config", file, "--metrics") as process:
            async with client_at(process.address) as client:
                start = time.perf_counter()
                for _ in range(5):
                    for first in range(0, 500, 20):
                        await asyncio.gather(*(ask_somehow(client, number) for number in range(first, first + 20)))
                    sizes.append(psutil.Process(process.pid).memory_info().rss / 2**20)
    seconds = time.perf_counter() - start
    shown = ", ".join(f"{size:.0f}" for size in sizes)
    print(f"\nMiB after each 500 requests: {shown}; {2500 / seconds:.0f} requests a second")
    assert sizes[-1] - sizes[0] < 0.05 * sizes[0]  # over 2,000 requests, after 500 to warm up


async def ask_somehow(client, number):
    question = f"What is the capital of country {number}?"
    match number % 5:
        case 0:
            response = await client.post("/v1/chat/completions", json=body_of(question, model="coe"))
        case 1:
            response = await client.post("/v1/chat/completions", json=body_of(question, model="coe", stream=True))
        case 2:
            response = await client.post("/events", json={"question": question})
        case 3:
            own = {"max_coe": number / 1000}
            response = await client.post("/v1/chat/completions", json=body_of(question, model="coe", coe=own))
        case _:
            response = await client.post("/v1/chat/completions", json=body_of(question, model="coe", n=number))
            assert response.status_code == 400
            return
    assert response.status_code == 200
