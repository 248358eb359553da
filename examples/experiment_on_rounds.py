"""Three rounds of debate, whatever the first measures, then the decision; a table and a picture of what each changed.

    python examples/experiment_on_rounds.py [PICTURE.png]

The models are those that are shipped with the package; put your own in place of `tinyworld_agents()`.
"""

import sys

from coe_agents import GroupDecision, RegimePolicy, create_coe_graph
from coe_agents.policy import FixedRounds
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer

graph = create_coe_graph(
    tinyworld_agents(),
    clusterer=tinyworld_clusterer(),
    policy=FixedRounds(3, then=RegimePolicy()),
    strategies="debate",
).compile()

decision = GroupDecision.from_state(graph.invoke({"question": "What is the capital of Australia?"}))
print(
    decision.to_frame()[["round", "agent", "answer", "entropy", "flipped", "coe"]].to_string(
        index=False
    )
)
print(f"\n{decision.explain()}")
if len(sys.argv) > 1:
    decision.plot_rounds().savefig(sys.argv[1])
