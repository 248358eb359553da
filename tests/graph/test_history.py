"""What the agents are shown of a conversation: not what the gate withheld, and, if so wished, the question only."""

import pytest
from langchain_core.messages import AIMessage

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

REFUSALS = [
    AIMessage("I will not answer this: the agents disagree."),
    AIMessage("", additional_kwargs={"refusal": "No."}),
    AIMessage("No.", response_metadata={"decision": {"action": "abstain"}}),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_question_whose_refusal_follows_is_asked_again(refusal):
    agent = ScriptedAgent("a", ["Lyon"])
    policy = ThresholdPolicy(0.5)
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=policy, history="question").compile()
    graph.invoke({"messages": [("user", "Which?"), refusal, refusal]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]


@pytest.mark.parametrize("after", [("ai", "A draft."), ("user", " ")])
def test_the_question_is_the_last_text_of_the_user_whatever_follows(after):
    agent = ScriptedAgent("a", ["Lyon"])
    policy = ThresholdPolicy(0.5)
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=policy, history="question").compile()
    graph.invoke({"messages": [("user", "Which?"), after]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_in_any_form_is_not_shown(refusal):
    agent = ScriptedAgent("a", ["Lyon"])
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
    graph.invoke({"messages": [("user", "Why?"), refusal, ("user", "Which?")]})
    assert agent.requests[0]["messages"] == [{"role": "user", "content": "Which?"}]
