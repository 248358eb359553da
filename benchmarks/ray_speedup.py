"""Prints what more actors save on a Ray cluster of two machines, and what the driver holds of the questions.

    python benchmarks/ray_speedup.py [--parts 32] [--questions 1000 10000 100000] [--write FILE]

Both machines are on loopback, with two logical CPUs each. First a server sleeps for 1 to 3 seconds before it answers a
request, so that the cores do not decide: the seconds of the same job with 1, 2 and 4 actors, each of which asks four
questions at a time. (The command divides `--at-once` among its actors, since a server's limit does not grow with them.)
An actor starts when its process runs and has made its agents, which are clients of the server over HTTP; "working" are
the seconds less the mean start of an actor. The actors share the cores of one machine, here, as they start.

Then two actors repeat their prompts, without a server: by how much the driver's resident memory grows from the
dataset's file to the end, and the most that Ray's object stores hold of it, looked at each tenth of a second. Each
number of questions has a driver of its own, which has asked 200 before.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback only; read when Ray is imported
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from coe_agents.config.sampling_group import create_group
from coe_agents.config.schema import Config, load_config
from coe_agents.distributed.parts import sample_parts
from coe_agents.distributed.ray_cluster import Pool, cluster
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.sources import open_questions
from coe_agents.evaluation.sample_collection import Participant, SampledGroup, units_of
from coe_agents.evaluation.samples.store import Store

ACTORS, SIZE, AT_ONCE = (1, 2, 4), 4, 4
MACHINE: dict[str, Any] = {
    "num_cpus": 2,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80_000_000,
}
CONFIG = """\
[[agents]]
name = "a"
provider = "openai"
model = "sleeping"
base_url = "{url}"
n_samples = 2
[clusterer]
kind = "normalized"
[policy]
kind = "threshold"
max_coe = 0.7
"""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the requests of one connection, each after its sleep."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            body = json.loads(
                await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
            )
            await asyncio.sleep(
                1 + zlib.crc32(body["messages"][-1]["content"].encode()) % 2000 / 1000
            )
            message = {"role": "assistant", "content": "Paris"}
            choices = [
                {"index": n, "message": message, "finish_reason": "stop"} for n in range(body["n"])
            ]
            usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
            reply = {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "sleeping",
                "usage": usage,
            }
            content = json.dumps({**reply, "choices": choices}).encode()
            start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            writer.write(start.encode() + content)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def sleeping_server() -> Iterator[str]:
    """Runs the server in a process of its own; yields its address."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


@contextmanager
def two_machines() -> Iterator[str]:
    """Runs a cluster; yields its address."""
    from ray.cluster_utils import Cluster

    found: Any = Cluster(
        initialize_head=True, head_node_args={**MACHINE, "include_dashboard": False}
    )
    try:
        found.add_node(**MACHINE)
        yield found.address
    finally:
        found.shutdown()


def create_noting(config: Config, folder: Path) -> Any:
    """Makes the agents of an actor, and notes when it has them."""
    group = create_group(config, seed=0, at_once=AT_ONCE)
    (folder / f"{os.getpid()}.started").write_text(str(time.time()))
    return group


def seconds(config: Config, questions: Sequence[Question], n_actors: int) -> tuple[float, float]:
    """Returns how long a job takes, and after how long an actor had started, on average."""
    agents = create_group(config, seed=0, at_once=AT_ONCE).participants
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        units = {
            (question.id, agent.name): agent.n_samples for question in questions for agent in agents
        }
        with Store(folder / "run", {}, units) as store:
            start = time.time()
            create = partial(create_noting, config, folder)
            names = [agent.name for agent in agents]
            sample_parts(questions, create, store, Pool(n_actors), agents=names, size=SIZE)
            whole = time.time() - start
            if store.n_pending or any(map(store.has_failed, units)):
                raise RuntimeError("a reply is missing")
        started = [float(path.read_text()) - start for path in folder.glob("*.started")]
    return whole, sum(started) / len(started)


def compare(address: str, n_parts: int) -> None:
    """Prints the seconds of the same job with more actors, and their share of a linear speed-up."""
    questions = [
        Question(str(number), f"Question {number}?", ("Paris",)) for number in range(n_parts * SIZE)
    ]
    figures = "seconds  speed-up  of linear   start  working  speed-up  of linear"
    out = sys.stdout  # `cluster` sends what is printed to standard error
    print(f"{len(questions)} questions in parts of {SIZE}   {figures}")
    with (
        sleeping_server() as url,
        tempfile.NamedTemporaryFile("w", suffix=".toml") as file,
        cluster(address),
    ):
        file.write(CONFIG.format(url=url))
        file.flush()
        config = load_config(Path(file.name))
        first: tuple[float, float] | None = None
        for n_actors in ACTORS:
            whole, start = seconds(config, questions, n_actors)
            working = whole - start
            first = first or (whole, working)
            gains = first[0] / whole, first[1] / working
            named = f"{n_actors} actor{'s' if n_actors > 1 else ''}"
            line = f"{named:31}{whole:10.1f}{gains[0]:10.2f}{gains[0] / n_actors:11.2f}{start:8.1f}{working:9.1f}"
            print(f"{line}{gains[1]:10.2f}{gains[1] / n_actors:11.2f}", file=out)


class Repeating:
    """Agents that repeat their prompts at once."""

    participants: Sequence[Participant] = (Participant("a", 2),)
    annotate = None
    secrets: Sequence[str] = ()

    async def ask(self, name: str, question: Question) -> Any:
        base = {"agent": name, "round": 0, "text": question.question, "answer": "x", "error": None}
        return {
            "responses": [
                {**base, "index": index, "logprob": None, "n_tokens": 2} for index in range(2)
            ]
        }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@contextmanager
def watching(read: Callable[[], float]) -> Iterator[list[float]]:
    """Yields a list of the largest value so far."""
    most, ended = [read()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            most[0] = max(most[0], read())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def drive(address: str, n_questions: int) -> None:
    """Prints a line of the second table."""
    from ray import available_resources, cluster_resources

    def stored() -> float:
        name = "object_store_memory"
        free: Mapping[str, float] = available_resources()
        given: Mapping[str, float] = cluster_resources()
        return given[name] - free.get(name, 0)

    with tempfile.TemporaryDirectory() as name, cluster(address):
        folder = Path(name)
        run_all(folder / "first", 200)  # so that everything is loaded
        before = resident()
        with watching(resident) as memory, watching(stored) as store:
            n_bytes = run_all(folder / "run", n_questions)
        line = f"{n_questions:9,}{n_bytes / 1e6:16.1f}{(memory[0] - before) / 1e6:22.1f}{store[0] / 1e6:22.2f}"
        print(line, file=sys.__stdout__, flush=True)


def run_all(folder: Path, n_questions: int) -> int:
    """Asks so many questions of a file, which it writes; returns the bytes of all prompts."""
    folder.mkdir()
    path = folder / "questions.jsonl"
    with path.open("w") as file:
        for number in range(n_questions):
            file.write(
                json.dumps(
                    {
                        "id": str(number),
                        "question": f"Question {number}? " * 20,
                        "references": ["x"],
                    }
                )
                + "\n"
            )
    found = open_questions(str(path), seed=0)

    with Store(folder / "run", {}, units_of(found.questions, {"a": 2})) as store:
        create: Callable[[], SampledGroup] = Repeating
        sample_parts(found.questions, create, store, Pool(2), agents=["a"], size=100)
    return sum(len(question.question) for question in found.questions)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=int, default=32)
    parser.add_argument("--questions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    for name in ("--serve", "--drive"):
        parser.add_argument(name, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve())
    elif options.drive is not None:
        address, n_questions = options.drive
        drive(address, int(n_questions))
    else:
        with two_machines() as address:
            compare(address, options.parts)
            print("\nquestions  MB of prompts  MB the driver grows by  MB in object stores")
            for n_questions in options.questions:
                command = [sys.executable, __file__, "--drive", address, str(n_questions)]
                print(
                    subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout,
                    end="",
                )


if __name__ == "__main__":
    from result_page import result_page

    with result_page():
        main()
