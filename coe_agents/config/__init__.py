"""Owns the configuration file: reads TOML, and creates agents, clusterer, policy and graph from it.

`load` is imported on first use: whoever only reads a file needs no LangGraph.
"""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.config.build import load

__all__ = ["load"]

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__, __dir__ = on_first_use(__name__, {"build": ("load",)})
