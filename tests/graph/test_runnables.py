import asyncio
import threading

import pytest

from coe_agents.graph.nodes import measure as measure_module
from tests.graph.groups import graph, saying


@pytest.mark.parametrize(("coordination", "on_the_loop"), [(None, True), ("softmax", False)])
def test_only_a_solver_that_may_take_long_leaves_the_event_loop(
    monkeypatch, coordination, on_the_loop
):
    threads = []
    measure = measure_module.measure

    def noting(*args, **options):
        threads.append(threading.get_ident())
        return measure(*args, **options)

    monkeypatch.setattr(measure_module, "measure", noting)
    asyncio.run(
        graph(*saying("x", "x"), coordination=coordination).compile().ainvoke({"question": "Q?"})
    )
    assert (threads == [threading.get_ident()]) is on_the_loop
