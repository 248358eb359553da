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
