"""Owns the configuration file: reads TOML, and creates agents, clusterer, policy and graph from it."""

from coe_agents.config.configuration import Configuration, load

__all__ = ["Configuration", "load"]
