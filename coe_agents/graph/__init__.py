"""Owns the state graph: agents in parallel, clusters, Collaborative Entropy, and the decision."""

from coe_agents.graph.builder import create_coe_graph
from coe_agents.graph.state import CoEInput, CoEOutput, CoEState, DecisionData

__all__ = ["CoEInput", "CoEOutput", "CoEState", "DecisionData", "create_coe_graph"]
