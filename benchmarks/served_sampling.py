"""Prints what ten samples cost a vLLM server and its client: in one request, in ten at once, in ten in turn.

    python benchmarks/served_sampling.py --vllm-python VENV/bin/python [--repeats 5] [--write FILE]

VENV is one with vLLM in it; `make vllm` makes it. A server of each model is started on loopback: tinyworld's model
shows the cost of requests, a random Llama of 41 million parameters that of computing. Every way goes through
`ModelAgent`; the ways of many requests are those of servers that ignore `n`. The runs are interleaved, and a ratio is
the median of the ratios to "one request" of the same repeat.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
from langchain_openai import ChatOpenAI
from local_sampling import random_llama
from result_page import result_page

from coe_agents import ModelAgent
from coe_agents.tinyworld import model_folder
from coe_agents.tinyworld.facts import load_facts
from coe_agents.types import AgentReply, AgentRequest
from examples.vllm_three_servers import Server, serving

N_SAMPLES, MAX_TOKENS = 10, 32
Cost = tuple[float, float, float, int]
"""Wall seconds, the servers' CPU seconds, the client's, and prompt tokens billed."""
Way = Callable[[AgentRequest], Awaitable[AgentReply]]


def agent(model: str, url: str, *, several: bool) -> ModelAgent:
    """An agent that draws all samples in one request, or each in one of its own."""
    chat = ChatOpenAI(model=model, base_url=url, api_key="none")
    # more places than there are requests, so that no way waits for them
    made = ModelAgent(
        model, chat, n_samples=N_SAMPLES, max_tokens=MAX_TOKENS, seed=1, max_concurrency=1000
    )
    made.model()
    if not several:
        made._ladder.takes_several, made._ladder.is_proven = False, True
    return made


def ways(model: str, url: str) -> dict[str, Way]:
    one, each = agent(model, url, several=True), agent(model, url, several=False)
    return {
        "one request": one.asample,
        f"{N_SAMPLES} requests at once": each.asample,
        # the synchronous form sends them one after the other
        f"{N_SAMPLES} requests in turn": lambda request: asyncio.to_thread(each.sample, request),
    }


def cpu_seconds(servers: Sequence[Server]) -> float:
    """What the servers' processes have used so far."""
    roots = [psutil.Process(server.process.pid) for server in servers]
    times = [
        process.cpu_times() for root in roots for process in (root, *root.children(recursive=True))
    ]
    return sum(each.user + each.system for each in times)


async def measure_cost(
    way: Way, questions: Sequence[str], servers: Sequence[Server], round: int
) -> Cost:
    """Puts questions at once; `round` makes them others than before, for the servers' caches."""
    requests = [
        AgentRequest(
            question=question,
            messages=[{"role": "user", "content": f"{question} ({round})"}],
            round=round,
        )
        for question in questions
    ]
    busy, wall, own = cpu_seconds(servers), time.perf_counter(), time.process_time()
    replies = await asyncio.gather(*map(way, requests))
    wall, own = time.perf_counter() - wall, time.process_time() - own
    if any(len(reply["responses"]) != N_SAMPLES for reply in replies):
        raise RuntimeError("a reply lacks responses")
    return (
        wall,
        cpu_seconds(servers) - busy,
        own,
        sum(reply["usage"]["input_tokens"] for reply in replies),
    )


async def compare(
    what: str, ways: Mapping[str, Way], servers: Sequence[Server], n: int, repeats: int
) -> None:
    """Prints the median cost of each way, and its ratio to the first."""
    questions = [fact.question for fact in load_facts()][:n]
    for way in ways.values():
        await measure_cost(way, questions, servers, -1)  # so that everything is loaded
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    for repeat in range(repeats):
        for place, (name, way) in enumerate(ways.items()):
            found[name].append(
                await measure_cost(way, questions, servers, repeat * len(ways) + place)
            )
    first = np.array(next(iter(found.values())))
    print(f"\n{what}, {n} question{'s at once' if n > 1 else ''}")
    for name, costs in found.items():
        wall, busy, own, tokens = np.median(costs, axis=0)
        ratios = "".join(f"{ratio:9.2f}" for ratio in np.median(costs / first, axis=0))
        print(f"{name:22}{wall:8.3f}{busy:12.3f}{own:12.3f}{tokens:9.0f}  {ratios}")


async def compare_all(name: str, folder: Path, python: str, repeats: int) -> None:
    with tempfile.TemporaryDirectory(
        prefix="coe"
    ) as scratch:  # short: paths of sockets go under it
        models = {name.partition(",")[0].replace(" ", "-"): str(folder)}
        with serving(
            models, python=python, folder=Path(scratch), flags=["--served-model-name", "served"]
        ) as running:
            (server,) = running.values()
            for n in (1, 20):
                await compare(name, ways("served", server.url), [server], n, repeats)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--vllm-python", required=True, help="the interpreter of an environment with vLLM"
    )
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(
        f"{N_SAMPLES} samples of at most {MAX_TOKENS} tokens a question; medians of {args.repeats}: seconds, tokens"
    )
    print(
        f"{'':22}{'wall':>8}{'server CPU':>12}{'client CPU':>12}{'prompts':>9}    ratios of these"
    )
    await compare_all("tiny-llama, 1 M", model_folder("tiny-llama"), args.vllm_python, args.repeats)
    with tempfile.TemporaryDirectory() as folder:
        await compare_all(
            "random Llama, 41 M", random_llama(Path(folder)), args.vllm_python, args.repeats
        )


if __name__ == "__main__":
    with result_page():
        asyncio.run(main())
