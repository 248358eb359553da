"""Owns the configuration file: reads TOML, and creates agents, clusterer, policy and graph from it."""

from coe_agents.config.build import Configuration, load

__all__ = ["Configuration", "load"]
