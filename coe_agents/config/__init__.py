"""Owns the configuration file: a TOML file in, agents, clusterer, policy and graph out."""

from coe_agents.config.configuration import Configuration, load

__all__ = ["Configuration", "load"]
