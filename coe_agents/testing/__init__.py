"""Owns the doubles with which users test: a scripted agent, an entailment model that reads a table, and responses.

`coe_agents.testing.driver`, which loads LangChain, holds a scripted chat model that drives an agent.
"""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.testing.doubles import ScriptedAgent
from coe_agents.types import create_response

__all__ = ["ScriptedAgent", "create_response"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
