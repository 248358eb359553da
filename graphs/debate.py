"""Agents that disagree are asked again, up to three times, as a deployable graph named in `langgraph.json`."""

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.graph.server import withhold
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_debate

group = create_coe_graph(
    tinyworld_agents(),
    clusterer=tinyworld_clusterer(),
    policy=RegimePolicy(
        aleatoric_threshold=0.5,
        epistemic_threshold=0.3,
        actions={
            "conflict": "another_round",
            "ambiguous": "another_round",
            "unknown": "another_round",
        },
    ),
    strategies={"conflict": tinyworld_debate(), "unknown": tinyworld_debate()},
    max_rounds=3,
    history="question",  # tinyworld's models know no conversations
).compile()
graph = withhold(group).compile(name="debate")  # what the gate withheld stays here
