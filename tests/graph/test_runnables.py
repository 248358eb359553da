import asyncio
import threading

import pytest

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.nodes import measure as measure_module
from coe_agents.testing import ScriptedAgent


def graph(text="x", **options):
    agents = [ScriptedAgent("a", [text]), ScriptedAgent("b", [text])]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.0), **options).compile()


@pytest.mark.parametrize(("coordination", "on_the_loop"), [(None, True), ("softmax", False)])
def test_only_a_solver_that_may_take_long_leaves_the_event_loop(monkeypatch, coordination, on_the_loop):
    threads, measure = [], measure_module.measure

    def noting(*args, **options):
        threads.append(threading.get_ident())
        return measure(*args, **options)

    monkeypatch.setattr(measure_module, "measure", noting)
    asyncio.run(graph(coordination=coordination).ainvoke({"question": "Q?"}))
    assert (threads == [threading.get_ident()]) is on_the_loop
