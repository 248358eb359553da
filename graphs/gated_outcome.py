"""The gate for callers who want the outcome only, MCP clients for example, as a deployable graph of `langgraph.json`.

The input is `{"question": str}`; the output is action, answer, reason and CoE. No response that the gate withheld is
in it but what the reason quotes.
"""

from coe_agents import create_coe_graph
from coe_agents.graph import create_outcome_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy

gate = create_coe_graph(tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()).compile()
graph = create_outcome_graph(gate).compile(name="gated_outcome")
