import asyncio
import threading

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.nodes import measure as measure_module
from coe_agents.testing import ScriptedAgent


def graph(text="x", **options):
    agents = [ScriptedAgent("a", [text]), ScriptedAgent("b", [text])]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.0), **options).compile()


def test_each_node_is_traced_once():
    class Runs(BaseCallbackHandler):
        def __init__(self):
            self.names = []

        def on_chain_start(self, serialized, inputs, **options):
            self.names.append(options["name"])

    runs, aruns = Runs(), Runs()
    graph().invoke({"question": "Q?"}, {"callbacks": [runs]})
    asyncio.run(graph().ainvoke({"question": "Q?"}, {"callbacks": [aruns]}))
    for names in (runs.names, aruns.names):
        assert [names.count(name) for name in ("a", "b", "cluster", "measure")] == [1, 1, 1, 1]


@pytest.mark.parametrize(("coordination", "on_the_loop"), [(None, True), ("softmax", False)])
def test_only_a_solver_that_may_take_long_leaves_the_event_loop(monkeypatch, coordination, on_the_loop):
    threads, measure = [], measure_module.measure

    def noting(*args, **options):
        threads.append(threading.get_ident())
        return measure(*args, **options)

    monkeypatch.setattr(measure_module, "measure", noting)
    asyncio.run(graph(coordination=coordination).ainvoke({"question": "Q?"}))
    assert (threads == [threading.get_ident()]) is on_the_loop


@pytest.mark.parametrize(("text", "expected"), [("x", []), ("x" * 3000, ["cluster"])])
def test_of_an_asynchronous_run_only_the_clusterer_of_long_texts_is_given_a_thread(text, expected):
    async def functions_in_threads():
        loop, found = asyncio.get_running_loop(), []
        run_in_executor = loop.run_in_executor

        def noting(executor, function, *args):
            found.append(function.args[0].__name__ if function.args else function.__name__)
            return run_in_executor(executor, function, *args)

        loop.run_in_executor = noting
        await graph(text, max_rounds=2).ainvoke({"question": "Q?"})
        return found

    assert asyncio.run(functions_in_threads()) == expected
