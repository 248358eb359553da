"""Owns experiments: whole policies over a dataset, and their comparison.

A policy is compared with others from what a run stored (`coe_agents.experiments.comparison.outcomes_of`) or, without a
model, from saved responses.
"""

from coe_agents.experiments.comparison import compare
from coe_agents.experiments.replay import ReplayedPolicy, load_saved, replay

__all__ = ["ReplayedPolicy", "compare", "load_saved", "replay"]
