"""Prints what the graph itself costs: the time of one `ainvoke` over that of an empty LangGraph graph of its shape.

    python benchmarks/graph_overhead.py [--write FILE]

The whole graph with the settings that `create_coe_graph` has by default, the model-free clusterer and a threshold;
scripted agents give five responses each, as a `ModelAgent` does by default: four times one answer, and once one of
their own. The empty graph has the same nodes and sends, and a state of the question and of a list that agents add to.
The runs are interleaved. Then a profile of both shows where the difference is spent.
"""

import argparse
import asyncio
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from concurrency import empty_graph
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import StateGraph
from result_page import result_page

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

Build = Callable[[int], StateGraph[Any, Any, Any, Any]]
WARM_UP = 20

# which part the time counts for that is spent in a function, or in what it calls that is none of these
PARTS = {
    ("testing/doubles.py", "asample"): "the scripted agents",
    ("graph/nodes/agent.py", "asample"): "the agents' nodes",
    ("graph/nodes/prepare.py", "prepare"): "preparing",
    ("graph/rounds.py", "ask_all"): "preparing",
    ("graph/nodes/cluster.py", "cluster"): "short answers, clustering",
    ("policy/measurement.py", "measure"): "the measure",
    ("uncertainty/intervals.py", "coe_interval"): "its interval",
    ("graph/nodes/measure.py", "measure_responses"): "the measure in the state",
    ("graph/nodes/coordinate.py", "coordinate"): "the policy",
    ("graph/nodes/finish.py", "finish"): "the decision and its message",
    ("graph/events.py", "emit"): "events",
}
REST = "LangGraph: a larger state, retries"


def ours(n_agents: int) -> StateGraph[Any, Any, Any, Any]:
    agents = [ScriptedAgent(name, [*["Paris"] * 4, f"City {name}"]) for name in names(n_agents)]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.7))


def empty(n_agents: int) -> StateGraph[Any, Any, Any, Any]:
    return empty_graph(names(n_agents), delay=0)


def names(n_agents: int) -> list[str]:
    return [f"agent {number}" for number in range(n_agents)]


async def milliseconds(
    n_agents: int, repeats: int, checkpointer: Any = None, builds: Sequence[Build] = (empty, ours)
) -> list[tuple[float, ...]]:
    """Returns wall and CPU milliseconds of each `ainvoke`, the empty graph's and ours."""
    graphs = [build(n_agents).compile(checkpointer=checkpointer) for build in builds]
    rows = []
    for number in range(WARM_UP + repeats):
        row: list[float] = []
        for place, graph in enumerate(graphs):
            options: dict[str, Any] = {}
            if checkpointer is not None:
                options = {"config": {"configurable": {"thread_id": f"{number} {place}"}}, "durability": "exit"}
            wall, cpu = time.perf_counter(), time.process_time()
            await graph.ainvoke({"question": f"What is the capital of country {number}?"}, **options)
            row += 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
        rows.append(tuple(row))
    return rows[WARM_UP:]


async def with_sqlite(n_agents: int, repeats: int) -> list[tuple[float, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "checkpoints.db")) as checkpointer:
            return await milliseconds(n_agents, repeats, checkpointer)


def shares(n_agents: int, repeats: int) -> dict[str, float]:
    """Returns the share of each part in the CPU time of our graph, by samples of the stack."""
    samples: Counter[str] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            where = (frame.f_code.co_filename.rpartition("coe_agents/")[2], frame.f_code.co_name)
            if where in PARTS:
                samples[PARTS[where]] += 1
                return
            frame = frame.f_back
        samples[REST] += 1

    async def in_this_thread(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    to_thread, asyncio.to_thread = asyncio.to_thread, in_this_thread  # samples are of the main thread
    signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        asyncio.run(milliseconds(n_agents, repeats, builds=[ours]))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        asyncio.to_thread = to_thread
    if missing := set(PARTS.values()) - samples.keys():
        raise RuntimeError(f"no sample fell into {sorted(missing)}. Correct the functions in PARTS, or repeat more")
    return {part: count / samples.total() for part, count in samples.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("                                      empty graph       coe-agents        difference")
    print("ms per ainvoke, medians              wall     CPU      wall     CPU      wall     CPU")
    cases = {
        "3 agents, 15 responses": milliseconds(3, 400),
        "32 agents, 160 responses": milliseconds(32, 100),
        '3 agents, SQLite, durability "exit"': with_sqlite(3, 200),
    }
    cpu = []
    for name, case in cases.items():
        rows = np.array(asyncio.run(case))
        medians = np.median(np.hstack([rows, rows[:, 2:] - rows[:, :2]]), axis=0)
        cells = "".join(f"{wall:10.2f}{own:8.2f}" for wall, own in medians.reshape(3, 2))
        print(f"{name:35}{cells[4:]}")
        cpu.append((medians[1], medians[3]))
    print("\nCPU ms of the difference, by samples of the stack     3 agents   32 agents")
    columns = []
    for n_agents, repeats, (empty_ms, ours_ms) in zip((3, 32), (1500, 400), cpu[:2], strict=True):
        parts = {part: share * ours_ms for part, share in shares(n_agents, repeats).items()}
        parts[REST] -= empty_ms
        columns.append(parts)
    for part in sorted(columns[0], key=lambda part: -columns[0][part]):
        print(f"{part:50} {columns[0][part]:11.2f} {columns[1].get(part, 0):11.2f}")


if __name__ == "__main__":
    with result_page():
        main()
