"""Owns actions: tool calls as responses that can be compared and clustered.

Nothing here calls a tool, and nothing asks a model but the rule `Meaning`, by the clusterer that it is given.
"""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.actions.canonical import canonical_action
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
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
