"""Owns the decision of a group: its type, how it is made and read back, and its views; other shapes inherit from it."""

from coe_agents.decision.data import AgentData, Answer, DecisionData, Grounds, Proposed
from coe_agents.decision.plots import plot_regimes
from coe_agents.decision.typed import GroupDecision

__all__ = ["AgentData", "Answer", "DecisionData", "Grounds", "GroupDecision", "Proposed", "plot_regimes"]
