"""A graph that tells answers, and nothing of what its gate withheld."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.server import withhold
from coe_agents.testing import ScriptedAgent

SAID = {"a": (["Lyon"], ["Bern"]), "b": (["Nice"], ["Bern"])}


def public_graph():
    agents = [ScriptedAgent(name, *rounds) for name, rounds in SAID.items()]
    group = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
    return withhold(group).compile(checkpointer=InMemorySaver()), agents


def all_of(state):
    return json.dumps(state["decision"]) + str(state["messages"])


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_what_was_withheld_is_nowhere_and_an_answer_is_there(mode):
    graph, agents = public_graph()
    config = {"configurable": {"thread_id": "1"}}
    events = []

    async def ask(**given):
        modes = {"stream_mode": ["custom", "values"]}
        if mode == "sync":
            parts = [*graph.stream(given, config, **modes)]
        else:
            parts = [part async for part in graph.astream(given, config, **modes)]
        events.extend(chunk["event"] for kind, chunk in parts if kind == "custom")
        return parts[-1][1]

    state = await ask(question="Which is nicer?")
    assert state["decision"]["reason"] == "several answers share the lead"
    assert state["decision"]["coe"] == pytest.approx(0.6931, abs=1e-4)
    assert not any(word in all_of(state) for word in ("Lyon", '"Nice'))
    assert events[-1] == "decided"
    for agent in agents:
        agent.rounds = [["Bern"]]
    state = await ask(messages=[("user", "What is the capital of Switzerland?")])
    assert (state["decision"]["answer"], state["messages"][-1].content) == ("Bern", "Bern")
    assert [message["content"] for message in agents[0].requests[-1]["messages"]] == [
        "What is the capital of Switzerland?"
    ]
