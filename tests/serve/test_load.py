import asyncio
import statistics
import time
from itertools import pairwise

import httpx
import psutil
import pytest

from benchmarks.concurrency import NAMES, QUESTIONS, SlowAgent, fails
from tests.serve.groups import body_of, group_of
from tests.serve.live import command, serving, written
from tests.servers import Served, running


def client_at(address):
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=address, limits=limits, timeout=120)


@pytest.mark.slow
async def test_200_at_once_with_failing_agents_are_all_answered_and_none_mixed():
    group = group_of(*map(SlowAgent, NAMES), max_coe=float("inf"))
    with serving(group) as address:
        async with client_at(address) as client:
            start = time.perf_counter()
            posts = [
                client.post("/v1/chat/completions", json=body_of(question))
                for question in QUESTIONS
            ]
            replies = [response.json() for response in await asyncio.gather(*posts)]
            print(
                f"\n{len(replies)} questions at once: all answered in {time.perf_counter() - start:.2f} s"
            )
    for question, reply in zip(QUESTIONS, replies, strict=True):
        failed = [name for name in NAMES if fails(name, question)]
        assert sorted(reply["coe"]["failed_agents"]) == failed
        message = reply["choices"][0]["message"]
        if len(failed) < 2:
            assert (message["content"], message["refusal"]) == (question, None)
        else:
            assert message["content"] == message["refusal"]
            assert message["refusal"].startswith("No answer: too few agents answered.")
    assert sum(len(reply["coe"]["failed_agents"]) for reply in replies) > 40


@pytest.mark.slow
async def test_memory_is_flat_over_500_requests(tmp_path):
    """Answers, refusals, streams, events, limits of all kinds, and requests that are refused."""
    asked = body_of(model="coe")
    fields = ({}, {"stream": True}, {"coe": {"max_coe": 0.1}}, {"n": 2})
    posts = [("/v1/chat/completions", asked | more) for more in fields]
    posts.append(("/events", {"question": "What is the capital?"}))
    with running(Served(("Paris", "It is Paris.", "Lyon"))) as model:
        path, sizes = written(tmp_path, model.url, max_coe=1.0), []
        with command("--config", path, "--metrics") as process:
            async with client_at(process.address) as client:
                for number in range(35):
                    if number % 5 == 0:
                        sizes.append(psutil.Process(process.pid).memory_info().rss / 2**20)
                    responses = await asyncio.gather(
                        *(client.post(path, json=body) for path, body in posts * 4)
                    )
                    assert [response.status_code for response in responses] == [
                        200,
                        200,
                        200,
                        400,
                        200,
                    ] * 4
            sizes.append(psutil.Process(process.pid).memory_info().rss / 2**20)
    print("\nMiB after each 100 requests:", ", ".join(f"{size:.1f}" for size in sizes[1:]))
    grown = [
        after - before for before, after in pairwise(sizes[2:])
    ]  # after 200 requests to warm up
    assert (
        statistics.median(grown) < 0.4
    )  # 4 kB a request: a leak grows always, an allocator in a leap
