import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from coe_agents import ModelAgent
from coe_agents.errors import InvalidReplyError
from tests.doubles import REQUEST, ProposingModel


@tool
def pay(to: str, amount: float) -> str:
    """Pays somebody."""
    raise AssertionError("a proposal is never run")


def proposes(*calls, text="", **more):
    return AIMessage(
        text,
        tool_calls=[{"name": n, "args": a, "id": str(i)} for i, (n, a) in enumerate(calls)],
        **more,
    )


def agent(*script, **options):
    return ModelAgent(
        "a", ProposingModel(script=list(script)), n_samples=len(script), tools=[pay], **options
    )


def test_proposals_are_responses_with_calls_and_their_canonical_form():
    asked = agent(
        proposes(("pay", {"to": "Ann", "amount": 5})),
        proposes(("pay", {"to": "Ann", "amount": 5.0}), text="Sure."),
        proposes(text="I would rather not."),
        proposes(("pay", {"to": "Bob", "amount": 1}), ("pay", {"to": "Ann", "amount": 5})),
    )
    rows = asked.sample(REQUEST)["responses"]
    assert rows[0]["calls"] == [{"name": "pay", "args": {"to": "Ann", "amount": 5}}]
    assert (
        rows[0]["answer"] == rows[1]["answer"] == '[{"args":{"amount":5,"to":"Ann"},"name":"pay"}]'
    )
    assert rows[2]["calls"] == []
    assert rows[2]["answer"] == "[]"
    assert rows[2]["text"] == "I would rather not."
    assert len(rows[3]["calls"]) == 2
    assert [row["error"] for row in rows] == [None] * 4


def test_a_request_may_name_other_tools():
    other = {"type": "function", "function": {"name": "log", "parameters": {"properties": {}}}}
    asked = agent(proposes(("log", {})))
    assert asked.sample({**REQUEST, "tools": [other]})["responses"][0]["calls"] == [
        {"name": "log", "args": {}}
    ]
    with pytest.raises(InvalidReplyError, match="'log', which is not one of the tools"):
        asked.sample(REQUEST)


BROKEN = [{"name": "pay", "args": '{"to": ', "id": "1", "error": "bad JSON"}]
INVALID = {
    "not JSON": AIMessage("", invalid_tool_calls=BROKEN),
    "unknown tool": proposes(("rob", {})),
    "unknown argument": proposes(("pay", {"iban": "x"})),
    "not finite": proposes(("pay", {"amount": float("inf")})),
    "cut off": proposes(("pay", {"to": "Ann"}), response_metadata={"finish_reason": "length"}),
    "named twice": proposes(
        ("pay", {"amount": 900}),
        additional_kwargs={
            "tool_calls": [{"function": {"name": "pay", "arguments": '{"amount":5,"amount":900}'}}]
        },
    ),
}


@pytest.mark.parametrize("said", INVALID.values(), ids=INVALID)
def test_an_invalid_proposal_is_a_failure_of_that_response_and_never_no_call(said):
    reply = agent(proposes(("pay", {"to": "Ann"})), said).sample(REQUEST)
    good, bad = reply["responses"]
    assert good["error"] is None
    assert bad["calls"] is None
    assert bad["answer"] is None
    assert bad["text"] == ""
    assert bad["error"].startswith("InvalidReplyError")
    assert reply["sampling"]["n_invalid_calls"] == 1
    assert reply["sampling"]["n_empty"] == 0


def test_an_agent_without_a_valid_proposal_has_failed_and_a_model_that_takes_no_tools_is_refused():
    with pytest.raises(InvalidReplyError, match="no response is valid"):
        agent(*INVALID.values()).sample(REQUEST)
    with pytest.raises(TypeError, match=r'must take tools \("bind_tools"\); got FakeListChatModel'):
        ModelAgent("a", FakeListChatModel(responses=["x"]), tools=[pay])
