"""A graph that only the tests serve: its node blocks the server's loop."""

import time
from typing import Any

from langgraph.graph import START, StateGraph

from coe_agents.graph.state import CoEState


async def block(state: CoEState) -> dict[str, Any]:
    time.sleep(0.01)  # noqa: ASYNC251  # what the server must catch
    return {}


_graph = StateGraph(CoEState)
_graph.add_node("block", block)
_graph.add_edge(START, "block")
graph = _graph.compile()
