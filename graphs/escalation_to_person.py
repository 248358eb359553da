"""The gate with a person behind it, shown as Agent Chat UI shows it; named in `langgraph.json`, for a server."""

from coe_agents import AskPerson, RegimePolicy, create_coe_graph
from coe_agents.graph.server import withhold
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer

group = create_coe_graph(
    tinyworld_agents(),
    clusterer=tinyworld_clusterer(),
    # sure of different answers: a case for somebody who can look it up
    policy=RegimePolicy(
        aleatoric_threshold=0.5, epistemic_threshold=0.3, actions={"conflict": "escalate"}
    ),
    escalation=AskPerson("agent_chat_ui"),
    history="question",  # tinyworld's models know no conversations
).compile()
graph = withhold(group).compile(
    name="escalation_to_person"
)  # the person sees what the gate withheld, and nobody else
