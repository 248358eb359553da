import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import ThresholdPolicy
from coe_agents.errors import CheckpointError
from coe_agents.graph import AskPerson
from coe_agents.graph import state as state_module
from coe_agents.graph.nodes import prepare
from coe_agents.testing import ScriptedAgent
from tests.graph.groups import THREAD, graph, saying


def waiting(saver, agents, **options):
    policy = ThresholdPolicy(0.1, otherwise="escalate")
    return graph(*agents, policy=policy, escalation=AskPerson()).compile(checkpointer=saver, **options)


def interrupted(saver, agents):
    return waiting(saver, agents, interrupt_after=["prepare"])


@pytest.mark.parametrize(("wrote", "said"), [(None, "an earlier version"), (7, "a version whose state is 7")])
def test_one_of_another_version_is_refused_and_says_what_to_do(monkeypatch, wrote, said):
    paused = waiting(InMemorySaver(), saying("Paris", "Rome"))
    with monkeypatch.context() as before:
        before.setattr(prepare, "STATE_VERSION", wrote)
        before.setattr(state_module, "STATE_VERSION", wrote)
        assert "__interrupt__" in paused.invoke({"question": "Capital?"}, THREAD)
    message = f"was written by {said} of coe-agents; .* Finish the run with the version that wrote it, or ask"
    with pytest.raises(CheckpointError, match=message):
        paused.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)
    # a new question on the thread begins anew
    assert "__interrupt__" in paused.invoke({"question": "Capital of France?"}, THREAD)
    assert paused.invoke(Command(resume={"type": "approve", "candidate": 1}), THREAD)["decision"]["action"] == "answer"


def test_one_of_another_version_or_that_asks_an_agent_under_its_old_name_is_refused_before_any_is_asked(monkeypatch):
    agents = saying("x", "y")
    paused = interrupted(InMemorySaver(), agents)
    with monkeypatch.context() as before:
        before.setattr(prepare, "STATE_VERSION", 1)
        paused.invoke({"question": "Capital?"}, THREAD)
    with pytest.raises(CheckpointError, match="a version whose state is 1"):
        paused.invoke(None, THREAD)
    assert [agent.requests for agent in agents] == [[], []]
    saver = InMemorySaver()
    interrupted(saver, saying("x", "y")).invoke({"question": "Capital?"}, THREAD)
    agents = [*saying("x"), ScriptedAgent("new", ["y"])]
    message = "asks agents that the graph does not have: b; its agents are a, new. Resume it with a graph that has them"
    with pytest.raises(CheckpointError, match=message):
        interrupted(saver, agents).invoke(None, THREAD)
    assert [agent.requests for agent in agents] == [[], []]
