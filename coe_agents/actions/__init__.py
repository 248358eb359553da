"""Owns actions: tool calls as responses that can be compared and clustered.

Nothing here calls a tool, and nothing asks a model but the rule `Meaning`, by the clusterer that it is given.
"""

from coe_agents.actions.canonical import canonical_action, read_action
from coe_agents.actions.contested import contested
from coe_agents.actions.match import ActionMatch
from coe_agents.actions.rules import AnyOrder, Exact, Ignore, Meaning, Text, Within

__all__ = [
    "ActionMatch",
    "AnyOrder",
    "Exact",
    "Ignore",
    "Meaning",
    "Text",
    "Within",
    "canonical_action",
    "contested",
    "read_action",
]
