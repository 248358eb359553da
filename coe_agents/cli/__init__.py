"""Owns the command `coe-agents`: its sub-commands, its output and its exit codes."""

from coe_agents.cli.app import main

__all__ = ["main"]
