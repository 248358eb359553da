"""Owns the configuration file: reads TOML, and creates agents, clusterer, policy and graph from it."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.config.build import load

__all__ = ["load"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
