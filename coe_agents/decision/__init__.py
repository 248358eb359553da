"""Owns the decision of a group: its type, how it is made and read back, and its views; other shapes inherit from it."""

from coe_agents.decision.data import DecisionData
from coe_agents.decision.group_decision import GroupDecision
from coe_agents.types import CAUSES

__all__ = ["CAUSES", "DecisionData", "GroupDecision"]
