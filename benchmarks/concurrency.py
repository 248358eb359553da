"""Prints what 200 questions at once cost, as a ratio to LangGraph alone: an empty graph of the same shape and sleeps.

    python benchmarks/concurrency.py [--write FILE]

Three agents answer each in 50 ms, and a tenth of their calls raise. The runs are interleaved.
"""

import argparse
import asyncio
import operator
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

import numpy as np
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import GraphOptions
from coe_agents.testing import ScriptedAgent

NAMES, DELAY, REPEATS = ("a", "b", "c"), 0.05, 7
QUESTIONS = [f"question {number}" for number in range(200)]


def fails(name: str, question: str) -> bool:
    """Whether that agent fails at that question: a tenth of the cases, spread as if by chance."""
    return zlib.crc32(f"{name} {question}".encode()) % 10 == 0


class SlowAgent(ScriptedAgent):
    """Repeats the question four times and then says something of its own, all after `DELAY` seconds; or raises."""

    async def asample(self, request: Any, config: Any = None) -> Any:
        await asyncio.sleep(DELAY)
        question = request["question"]
        if fails(self.name, question):
            raise ConnectionError(f"{question} lost")
        return ScriptedAgent(self.name, [*[question] * 4, f"{self.name} on {question}"]).sample(
            request
        )


def coe_graph() -> StateGraph[Any, Any, Any, Any]:
    agents = [SlowAgent(name) for name in NAMES]
    return create_coe_graph(
        agents,
        clusterer=NormalizedMatch(),
        policy=ThresholdPolicy(float("inf")),
        options=GraphOptions(retries=0),
    )


class Empty(TypedDict, total=False):
    """What the empty graph remembers."""

    question: str
    said: Annotated[list[str], operator.add]


async def nothing(state: Empty) -> dict[str, Any]:
    return {}


async def route(state: Empty) -> Command[Any]:
    return Command(goto="answer")


def empty_graph(
    names: Sequence[str] = NAMES, delay: float = DELAY
) -> StateGraph[Any, Any, Any, Any]:
    async def slow(state: Empty) -> dict[str, Any]:
        if delay:
            await asyncio.sleep(delay)
        return {"said": [state["question"]]}

    return graph_of(dict.fromkeys(names, slow))


def graph_of(
    agents: Mapping[str, Callable[[Empty], Awaitable[dict[str, Any]]]],
) -> StateGraph[Any, Any, Any, Any]:
    """Returns a graph of the shape of ours, with these functions as its agents and nothing else."""
    names = list(agents)
    graph = StateGraph(Empty)
    for name in ("prepare", "cluster", "measure", "answer"):
        graph.add_node(name, nothing)
    graph.add_node("coordinate", route, destinations=("answer",))
    for name, agent in agents.items():
        graph.add_node(name, agent)
        graph.add_edge(name, "cluster")
    graph.add_conditional_edges(
        "prepare", lambda state: [Send(name, state) for name in names], list(names)
    )
    for edge in (
        (START, "prepare"),
        ("cluster", "measure"),
        ("measure", "coordinate"),
        ("answer", END),
    ):
        graph.add_edge(*edge)
    return graph


async def ask_all(graph: Any) -> list[dict[str, Any]]:
    """Asks all questions at once, each on a thread of its own."""
    threads = [{"configurable": {"thread_id": question}} for question in QUESTIONS]
    pairs = zip(QUESTIONS, threads, strict=True)
    return await asyncio.gather(
        *(graph.ainvoke({"question": question}, thread) for question, thread in pairs)
    )


def seconds(
    build: Callable[[], StateGraph[Any, Any, Any, Any]], *, saved: bool
) -> tuple[float, float]:
    """Returns wall and CPU seconds of `ask_all`."""
    graph = build().compile(checkpointer=InMemorySaver() if saved else None)
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(ask_all(graph))
    return time.perf_counter() - wall, time.process_time() - cpu


def costs(*, saved: bool, repeats: int = REPEATS) -> dict[str, list[float]]:
    """Returns the medians for "wall" and "cpu": seconds of the empty graph, of ours, and the ratio of each pair."""
    for build in (empty_graph, coe_graph):
        seconds(build, saved=saved)  # once, so that everything is loaded
    pairs = [
        (seconds(empty_graph, saved=saved), seconds(coe_graph, saved=saved)) for _ in range(repeats)
    ]
    empty, ours = np.array(pairs).swapaxes(0, 1)
    medians = np.median([empty, ours, ours / empty], axis=1)
    return dict(zip(("wall", "cpu"), medians.T.tolist(), strict=True))


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(
        f"{len(QUESTIONS)} questions at once, medians of {REPEATS}   empty graph   coe-agents   ratio"
    )
    for saved in (False, True):
        for clock, (empty, ours, ratio) in costs(saved=saved).items():
            what = f"{clock} seconds, {'InMemorySaver' if saved else 'no checkpointer'}"
            print(f"{what:41} {empty:11.2f} {ours:12.2f} {ratio:7.2f}")


if __name__ == "__main__":
    from result_page import result_page  # beside this file; tests import it as part of a package

    with result_page():
        main()
