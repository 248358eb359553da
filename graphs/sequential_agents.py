"""A walk along the periodic table, each step behind its own gate, as a deployable graph named in `langgraph.json`.

The input is `{"question": str}`, say "What is the chemical symbol for aluminium?", or `{"messages": [...]}`, as chat
interfaces send it; any other question is a chain of one. The output holds `steps` with each question, its answer and
its numbers, `decision` of the last step, the sums `coe`, `aleatoric` and `epistemic`, how the chain `ended`, and the
chain in words at the end of `messages`.
"""

from coe_agents import create_coe_graph
from coe_agents.graph import create_sequential_graph
from coe_agents.graph.server import withhold
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy
from coe_agents.tinyworld.chain import next_element_question

group = create_coe_graph(
    tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()
).compile()
gate = withhold(group).compile()  # what the gate withheld stays there
graph = create_sequential_graph(gate, next_question=next_element_question, max_steps=12).compile(
    name="sequential_agents"
)
