"""Owns running a whole policy over a dataset: the graph as configured, asked every question, each decision kept."""

from coe_agents.experiments.runs.group import RunGroup, create_run_group
from coe_agents.experiments.runs.runner import Timings, decide_all, keep_prices

__all__ = [
    "RunGroup",
    "Timings",
    "create_run_group",
    "decide_all",
    "keep_prices",
]
