"""The gate as a deployable graph, named in `langgraph.json`; the server brings the checkpointer."""

from coe_agents import create_coe_graph
from coe_agents.graph.server import withhold
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy

group = create_coe_graph(
    tinyworld_agents(),
    clusterer=tinyworld_clusterer(),
    policy=tinyworld_policy(),
    history="question",  # tinyworld's models know no conversations
).compile()
graph = withhold(group).compile(name="gated_answer")  # what the gate withheld stays here
