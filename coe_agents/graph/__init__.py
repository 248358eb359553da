"""Owns the state graph: agents in parallel, clusters, Collaborative Entropy, the gate, and who decides after it."""

from coe_agents.decision import DecisionData
from coe_agents.graph.ask_person import AskPerson
from coe_agents.graph.builder import create_coe_graph
from coe_agents.graph.chains import SequenceInput, SequenceOutput, Step, create_sequential_graph
from coe_agents.graph.context import CoEContext
from coe_agents.graph.events import AgentAsked, AgentSampled, Clustered, Decided, Event, Measured, Ruled
from coe_agents.graph.nodes.escalation import Escalation, candidates
from coe_agents.graph.outcome import GatedAnswer, QuestionInput, create_outcome_graph
from coe_agents.graph.people import PersonRequest
from coe_agents.graph.recording import Recording
from coe_agents.graph.server import ContextCheck
from coe_agents.graph.state import CoEInput, CoEOutput, CoEState

__all__ = [
    "AgentAsked",
    "AgentSampled",
    "AskPerson",
    "Clustered",
    "CoEContext",
    "CoEInput",
    "CoEOutput",
    "CoEState",
    "ContextCheck",
    "Decided",
    "DecisionData",
    "Escalation",
    "Event",
    "GatedAnswer",
    "Measured",
    "PersonRequest",
    "QuestionInput",
    "Recording",
    "Ruled",
    "SequenceInput",
    "SequenceOutput",
    "Step",
    "candidates",
    "create_coe_graph",
    "create_outcome_graph",
    "create_sequential_graph",
]
