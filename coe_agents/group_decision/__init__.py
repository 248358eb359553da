"""Owns the decision of a group: its type, how it is made and read back, and its views; other shapes inherit from it."""

from coe_agents.group_decision.create import create_decision
from coe_agents.group_decision.data import (
    AgentData,
    AgentTokens,
    Answer,
    DecisionData,
    Grounds,
    Proposed,
    view,
)
from coe_agents.group_decision.plots import plot_regimes
from coe_agents.group_decision.typed import HEADINGS, GroupDecision
from coe_agents.group_decision.views import to_json, to_numbers, to_public

__all__ = [
    "HEADINGS",
    "AgentData",
    "AgentTokens",
    "Answer",
    "DecisionData",
    "Grounds",
    "GroupDecision",
    "Proposed",
    "create_decision",
    "plot_regimes",
    "to_json",
    "to_numbers",
    "to_public",
    "view",
]
