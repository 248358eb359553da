"""Owns what users test their own parts with: the contracts as suites of tests, and the doubles.

A contract is a class of tests. Derive from it in a test file, say how to create your part, and pytest runs the suite:

    from coe_agents.testing import EntailmentModelContract

    class TestMyJudge(EntailmentModelContract):
        def create_model(self):
            return MyJudge()

The suites need no plugin, and importing them does not import pytest. `coe_agents.testing.driver`, which loads
LangChain, holds a scripted chat model that drives an agent.
"""

from coe_agents.testing.contracts import (
    AgentContract,
    ClustererContract,
    EntailmentModelContract,
    FailingAgentContract,
)
from coe_agents.testing.doubles import ScriptedAgent, TableEntailment
from coe_agents.types import create_response

__all__ = [
    "AgentContract",
    "ClustererContract",
    "EntailmentModelContract",
    "FailingAgentContract",
    "ScriptedAgent",
    "TableEntailment",
    "create_response",
]
