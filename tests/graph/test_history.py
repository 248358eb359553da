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


def shown(*messages, **options):
    """What an agent is shown of a conversation."""
    agent = ScriptedAgent("a", ["Lyon"])
    graph = create_coe_graph([agent], clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5), **options).compile()
    graph.invoke({"messages": [*messages]})
    return [message["content"] for message in agent.requests[0]["messages"]]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_in_any_form_is_not_shown_and_what_was_refused_is_asked_again(refusal):
    assert shown(("user", "Why?"), refusal, ("user", "Which?")) == ["Which?"]
    assert shown(("user", "Which?"), refusal, refusal, history="question") == ["Which?"]


@pytest.mark.parametrize("after", [("ai", "A draft."), ("user", " ")])
def test_the_question_is_the_last_text_of_the_user_whatever_follows(after):
    assert shown(("user", "Which?"), after, history="question") == ["Which?"]
