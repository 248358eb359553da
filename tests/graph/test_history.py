import pytest
from langchain_core.messages import AIMessage

from coe_agents.testing import ScriptedAgent
from tests.graph.groups import graph

WHY = ("user", "Why?")
WHICH = ("user", "Which?")
REFUSALS = [
    AIMessage("No.", response_metadata={"coe_withheld": True}),
    AIMessage("", additional_kwargs={"refusal": "No."}),
    AIMessage("No.", response_metadata={"decision": {"action": "abstain"}}),
]
"""A refusal in any form, which is not shown, and what was refused is asked again."""


@pytest.mark.parametrize(
    ("messages", "history"),
    [
        *(([WHY, refusal, WHICH], "conversation") for refusal in REFUSALS),
        *(([WHICH, refusal, refusal], "question") for refusal in REFUSALS),
        *(([WHICH, after], "question") for after in (("ai", "A draft."), ("user", " "))),
    ],
)
def test_what_was_refused_and_what_is_no_question_is_not_shown(messages, history):
    agent = ScriptedAgent("a", ["Lyon"])
    graph(agent, history=history).compile().invoke({"messages": messages})
    assert [message["content"] for message in agent.requests[0]["messages"]] == ["Which?"]
