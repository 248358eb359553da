"""Owns experiments: whole policies over a dataset, and their comparison.

A policy is compared with others from what a run stored (`coe_agents.experiments.comparison.outcomes_of`) or, without a
model, from saved responses.
"""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.experiments.comparison import compare
from coe_agents.experiments.replay import replay

__all__ = ["compare", "replay"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
