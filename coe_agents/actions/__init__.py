"""Owns actions: tool calls as responses that can be compared and clustered.

Nothing here calls a tool or asks a model.
"""

from coe_agents.actions.canonical import canonical_action, read_action
from coe_agents.actions.contested import contested
from coe_agents.actions.match import ActionMatch, compare_actions
from coe_agents.actions.proposals import (
    called_tools,
    check_calls,
    check_proposal,
    compared_answer,
    describe_action,
    has_proposals,
)
from coe_agents.actions.rules import AnyOrder, Exact, Ignore, Meaning, Rule, Text, Within

__all__ = [
    "ActionMatch",
    "AnyOrder",
    "Exact",
    "Ignore",
    "Meaning",
    "Rule",
    "Text",
    "Within",
    "called_tools",
    "canonical_action",
    "check_calls",
    "check_proposal",
    "compare_actions",
    "compared_answer",
    "contested",
    "describe_action",
    "has_proposals",
    "read_action",
]
