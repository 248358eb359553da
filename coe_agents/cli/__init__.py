"""Owns the command `coe-agents`: what it asks, how it shows the decision, and its exit codes."""

from coe_agents.cli.app import main

__all__ = ["main"]
