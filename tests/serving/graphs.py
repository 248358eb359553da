"""Graphs that only the tests serve: a person behind the gate, and a node that blocks the server's loop."""

import time
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from coe_agents import create_coe_graph
from coe_agents.graph import CoEState
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy


def ask_a_person(state: CoEState) -> dict[str, Any]:
    said = interrupt({"question": state["messages"][0].text, "reason": state["decision"]["reason"]})
    return {"decision": {**state["decision"], "action": "answer", "answer": said}}


def is_answered(state: CoEState) -> str:
    return END if state["decision"]["action"] == "answer" else "person"


gate = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()).compile()
_person = StateGraph(CoEState)
_person.add_node("gate", gate)
_person.add_node("person", ask_a_person)
_person.add_edge(START, "gate")
_person.add_conditional_edges("gate", is_answered, ["person", END])
_person.add_edge("person", END)
person = _person.compile()


async def block(state: CoEState) -> dict[str, Any]:
    time.sleep(0.01)  # noqa: ASYNC251  # what the server must catch
    return {}


_blocking = StateGraph(CoEState)
_blocking.add_node("block", block)
_blocking.add_edge(START, "block")
blocking = _blocking.compile()
