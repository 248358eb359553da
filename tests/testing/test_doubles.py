import pytest

import coe_agents.testing
from coe_agents.testing import ScriptedAgent, create_response
from coe_agents.testing.doubles import TableEntailment
from coe_agents.types import AgentRequest
from tests.test_package import loaded_after


def request(round):
    return AgentRequest(question="Q?", messages=[], round=round)


def test_an_agent_follows_its_script_and_keeps_its_last_round():
    agent = ScriptedAgent("a", ["x", "y"], ConnectionError("refused"), ["z"])
    assert [response["text"] for response in agent.sample(request(0))["responses"]] == ["x", "y"]
    with pytest.raises(ConnectionError, match="refused"):
        agent.sample(request(1))
    for later in (2, 9):
        (response,) = agent.sample(request(later))["responses"]
        assert response == create_response("a", "z", round=later)
    assert [asked["round"] for asked in agent.requests] == [0, 1, 2, 9]
    with pytest.raises(ValueError, match="ScriptedAgent must hold at least one"):
        ScriptedAgent("a").sample(request(0))


def test_a_table_refuses_what_is_no_label():
    with pytest.raises(ValueError, match="got 'yes'"):
        TableEntailment({("a", "b"): "yes"})
    with pytest.raises(ValueError, match="got 'no'"):
        TableEntailment({}, default="no")
    with pytest.raises(ValueError, match="got 'Neutral'"):
        TableEntailment(lambda *pair: "Neutral").predict([("a", "b")])
    with pytest.raises(ValueError, match="A clusterer asks only where there is a pair"):
        TableEntailment({}).predict([])


def test_what_is_exported_is_there_and_needs_neither_pytest_nor_a_model():
    for name in coe_agents.testing.__all__:
        assert getattr(coe_agents.testing, name).__name__ == name
    assert not {"pytest", "torch", "langchain_core", "langgraph"} & loaded_after(
        "import coe_agents.testing"
    )
