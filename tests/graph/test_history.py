import pytest
from langchain_core.messages import AIMessage

from coe_agents.testing import ScriptedAgent
from tests.graph.groups import graph

REFUSALS = [
    AIMessage("I will not answer this: the agents disagree."),
    AIMessage("", additional_kwargs={"refusal": "No."}),
    AIMessage("No.", response_metadata={"decision": {"action": "abstain"}}),
]


def shown(*messages, **options):
    agent = ScriptedAgent("a", ["Lyon"])
    graph(agent, **options).compile().invoke({"messages": [*messages]})
    return [message["content"] for message in agent.requests[0]["messages"]]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_in_any_form_is_not_shown_and_what_was_refused_is_asked_again(refusal):
    assert shown(("user", "Why?"), refusal, ("user", "Which?")) == ["Which?"]
    assert shown(("user", "Which?"), refusal, refusal, history="question") == ["Which?"]


@pytest.mark.parametrize("after", [("ai", "A draft."), ("user", " ")])
def test_the_question_is_the_last_text_of_the_user_whatever_follows(after):
    assert shown(("user", "Which?"), after, history="question") == ["Which?"]
