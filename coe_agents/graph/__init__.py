"""Owns the state graph: agents in parallel, clusters, Collaborative Entropy, and the decision."""

from coe_agents.graph.builder import create_coe_graph
from coe_agents.graph.events import AgentAsked, AgentSampled, Clustered, Decided, Event, Measured
from coe_agents.graph.sequence import SequenceInput, SequenceOutput, Step, create_sequential_graph
from coe_agents.graph.state import CoEInput, CoEOutput, CoEState, DecisionData

__all__ = [
    "AgentAsked",
    "AgentSampled",
    "Clustered",
    "CoEInput",
    "CoEOutput",
    "CoEState",
    "Decided",
    "DecisionData",
    "Event",
    "Measured",
    "SequenceInput",
    "SequenceOutput",
    "Step",
    "create_coe_graph",
    "create_sequential_graph",
]
