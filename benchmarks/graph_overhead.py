"""Prints what one question costs over the calls of its models, and what the graph costs without models.

    python benchmarks/graph_overhead.py [--write FILE]

The whole graph with the settings that `create_coe_graph` has by default, the model-free clusterer and a threshold.
Each agent gives five responses: four times one answer, and once one of its own, others to each question. All runs are
interleaved, in one process; the garbage collector leaves out what was loaded before, since it would pause one of them
for all. The empty graph has the same nodes and sends, and a state of the question and of a list that agents add to.

The first table is of `ModelAgent`s whose models answer at once from memory. "calls": the same requests with
`model.ainvoke` (`model.agenerate` where one request brings all five responses, since `ainvoke` keeps one), all at once,
without a graph. "LangGraph": an empty graph whose nodes make these calls. "coe-agents": our graph. LangGraph alone
costs 2 to 8 ms, so what we add is the difference to "LangGraph".

The second table is of scripted agents, over an empty graph whose nodes call nothing. Then samples of the stack show
where this difference is spent.
"""

import argparse
import asyncio
import gc
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from concurrency import empty_graph, graph_of
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import StateGraph
from result_page import result_page

from coe_agents import ModelAgent, ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

Build = Callable[[int], StateGraph[Any, Any, Any, Any]]
WARM_UP = 20

# which part the time counts for that is spent in a function, or in what it calls that is none of these
PARTS = {
    ("graph_overhead.py", "asample"): "the scripted agents",
    ("graph/nodes/agent.py", "sample"): "the agents' nodes",
    ("graph/nodes/prepare.py", "prepare"): "preparing",
    ("graph/nodes/agent.py", "ask_all"): "preparing",
    ("graph/nodes/cluster.py", "cluster_now"): "short answers, clustering",
    ("measurement/measurement.py", "measure"): "the measure",
    ("graph/nodes/measure.py", "measure_responses"): "the measure in the state",
    ("graph/nodes/coordinator.py", "coordinator"): "the policy",
    ("graph/nodes/finish.py", "finish"): "the decision and its message",
    ("graph/events.py", "emit"): "events",
}
REST = "LangGraph: a larger state, retries"


class Ready(BaseChatModel):
    """A model whose answers are ready, one for each request."""

    texts: list[str]
    n_given: int = 0

    @property
    def _llm_type(self) -> str:
        return "ready"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        generations = []
        for _ in range(options.get("n") or 1):
            text = f"{self.texts[self.n_given % len(self.texts)]} {messages[-1].content}"
            generations.append(ChatGeneration(message=AIMessage(text)))
            self.n_given += 1
        return ChatResult(generations=generations)

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        return self._generate(messages, **options)


class ReadyAtOnce(Ready):
    """The same model, which gives all answers to one request."""

    n: int | None = None


async def call(model: Ready, question: str) -> list[str]:
    """Makes the requests that a `ModelAgent` makes, and returns the texts."""
    asked = [HumanMessage(question)]
    if isinstance(model, ReadyAtOnce):
        result = await model.agenerate([asked], n=len(model.texts))
        return [each.text for each in result.generations[0]]
    return [
        reply.text for reply in await asyncio.gather(*(model.ainvoke(asked) for _ in model.texts))
    ]


async def over_calls(n_agents: int, repeats: int, kind: type[Ready]) -> list[list[float]]:
    """Returns CPU milliseconds of each question: of the calls, of an empty graph that makes them, and of ours."""
    models = {name: kind(texts=texts(name)) for name in names(n_agents)}

    def node(model: Ready) -> Callable[[Any], Any]:
        async def ask(state: Any) -> dict[str, Any]:
            return {"said": await call(model, state["question"])}

        return ask

    agents = [ModelAgent(name, model) for name, model in models.items()]
    graph = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.6)
    ).compile()
    calling = graph_of({name: node(model) for name, model in models.items()}).compile()

    async def calls(given: dict[str, str]) -> None:
        await asyncio.gather(*(call(model, given["question"]) for model in models.values()))

    gc.freeze()
    rows = []
    for number in range(WARM_UP + repeats):
        row = []
        for ask in (calls, calling.ainvoke, graph.ainvoke):
            start = time.process_time()
            await ask({"question": f"What is the capital of country {number}?"})
            row.append(1000 * (time.process_time() - start))
        rows.append(row)
    return rows[WARM_UP:]


def texts(name: str) -> list[str]:
    return [*["Paris"] * 4, f"City {name}"]


class Scripted(ScriptedAgent):
    """Gives the same texts as a `Ready` model."""

    async def asample(self, request: Any, config: Any = None) -> Any:
        return ScriptedAgent(
            self.name, [f"{text} {request['question']}" for text in texts(self.name)]
        ).sample(request)


def ours(n_agents: int) -> StateGraph[Any, Any, Any, Any]:
    agents = [Scripted(name) for name in names(n_agents)]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.6))


def empty(n_agents: int) -> StateGraph[Any, Any, Any, Any]:
    return empty_graph(names(n_agents), delay=0)


def names(n_agents: int) -> list[str]:
    return [f"agent {number}" for number in range(n_agents)]


async def milliseconds(
    n_agents: int, repeats: int, checkpointer: Any = None, builds: Sequence[Build] = (empty, ours)
) -> list[tuple[float, ...]]:
    """Returns wall and CPU milliseconds of each `ainvoke`, the empty graph's and ours."""
    graphs = [build(n_agents).compile(checkpointer=checkpointer) for build in builds]
    gc.freeze()
    rows = []
    for number in range(WARM_UP + repeats):
        row: list[float] = []
        for place, graph in enumerate(graphs):
            options: dict[str, Any] = {}
            if checkpointer is not None:
                options = {
                    "config": {"configurable": {"thread_id": f"{number} {place}"}},
                    "durability": "exit",
                }
            wall, cpu = time.perf_counter(), time.process_time()
            await graph.ainvoke(
                {"question": f"What is the capital of country {number}?"}, **options
            )
            row += 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
        rows.append(tuple(row))
    return rows[WARM_UP:]


async def with_sqlite(n_agents: int, repeats: int) -> list[tuple[float, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(
            str(Path(folder) / "checkpoints.db")
        ) as checkpointer:
            return await milliseconds(n_agents, repeats, checkpointer)


def shares(n_agents: int, repeats: int) -> dict[str, float]:
    """Returns the share of each part in the CPU time of our graph, by samples of the stack."""
    samples: Counter[str] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            file = frame.f_code.co_filename
            where = (
                Path(file).name if file == __file__ else file.rpartition("coe_agents/")[2],
                frame.f_code.co_name,
            )
            if where in PARTS:
                samples[PARTS[where]] += 1
                return
            frame = frame.f_back
        samples[REST] += 1

    async def in_this_thread(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    to_thread, asyncio.to_thread = (
        asyncio.to_thread,
        in_this_thread,
    )  # samples are of the main thread
    signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        asyncio.run(milliseconds(n_agents, repeats, builds=[ours]))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        asyncio.to_thread = to_thread
    if missing := set(PARTS.values()) - samples.keys():
        raise RuntimeError(
            f"no sample fell into {sorted(missing)}. Correct the functions in PARTS, or repeat more"
        )
    return {part: count / samples.total() for part, count in samples.items()}


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(
        "CPU ms per question, medians                calls  LangGraph  coe-agents    over calls   over LangGraph"
    )
    for n_agents, repeats in ((3, 300), (32, 80)):
        for kind, how in ((ReadyAtOnce, "one request each"), (Ready, "five requests each")):
            called, calling, own = np.median(
                asyncio.run(over_calls(n_agents, repeats, kind)), axis=0
            ).tolist()
            what = f"{n_agents} agents, {how}"
            print(
                f"{what:37} {called:11.2f} {calling:10.2f} {own:11.2f} {own - called:13.2f} {own - calling:16.2f}"
            )
    print("\n                                      empty graph       coe-agents        difference")
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
