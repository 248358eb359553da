"""Owns the doubles with which users test: a scripted agent, an entailment model that reads a table, and responses.

`coe_agents.testing.driver`, which loads LangChain, holds a scripted chat model that drives an agent.
"""

from coe_agents.testing.doubles import ScriptedAgent, TableEntailment
from coe_agents.types import create_response

__all__ = ["ScriptedAgent", "TableEntailment", "create_response"]
