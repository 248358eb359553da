"""A council in an agent of deepagents, where COE_DEEPAGENTS names a folder into which it was installed:

pip install --target FOLDER --no-deps deepagents wcmatch bracex langchain-anthropic anthropic docstring-parser \\
    langchain-google-genai google-genai google-auth
"""

import os
import sys

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import CoECouncil, SupportPolicy
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import THREAD
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, replies, says
from tests.middleware.council import members

pytestmark = pytest.mark.clients


@pytest.fixture
def create_deep_agent(monkeypatch):
    folder = os.environ.get("COE_DEEPAGENTS")
    if not folder:
        pytest.skip(
            "COE_DEEPAGENTS names no folder with deepagents; see the first lines of this file"
        )
    monkeypatch.setattr(sys, "path", [*sys.path, folder])
    from deepagents import create_deep_agent

    return create_deep_agent


def deep_agent(create_deep_agent, agents, bank, *messages, **options):
    council = CoECouncil(agents, policy=SupportPolicy(0.6), **options)
    driver = ScriptedDriver(script=[*messages])
    return create_deep_agent(driver, bank.tools, middleware=[council], checkpointer=InMemorySaver())


@pytest.mark.parametrize("tools", [None, ["transfer_money"]])
async def test_in_a_deep_agent(create_deep_agent, tools, bank):
    agents = members([[call(**ANN)], "Done."])  # they are not shown the call that is withheld
    agent = deep_agent(
        create_deep_agent,
        agents,
        bank,
        says(call(**ANN)),
        says(call(id="c2", **BOB)),
        DONE,
        tools=tools,
    )
    state = await agent.ainvoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1.0)]
    assert [reply.status for reply in replies(state)] == ["success", "error"]
    assert state["messages"][-1].text == "Done."
    shown = {tool["function"]["name"] for tool in agents[0].requests[0]["tools"]}
    assert {"transfer_money", "ls", "task"} <= shown
