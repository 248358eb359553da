"""Owns the state graph: agents in parallel, clusters, Collaborative Entropy, the gate, and who decides after it."""

from coe_agents.graph.builder import create_coe_graph
from coe_agents.graph.escalation import Escalation, candidates
from coe_agents.graph.interrupts import PersonRequest
from coe_agents.graph.people import AskPerson
from coe_agents.graph.state import CoEInput, CoEOutput, CoEState, DecisionData

__all__ = [
    "AskPerson",
    "CoEInput",
    "CoEOutput",
    "CoEState",
    "DecisionData",
    "Escalation",
    "PersonRequest",
    "candidates",
    "create_coe_graph",
]
