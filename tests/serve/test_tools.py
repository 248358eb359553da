import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents import SupportPolicy
from coe_agents.serve.api_error import ApiError
from coe_agents.serve.chat_request import check_results
from coe_agents.testing import ScriptedAgent
from tests.serve.groups import complete, create_group, group_of, supporting

PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
}
PAY = {
    "type": "function",
    "function": {"name": "pay", "description": "Pays.", "parameters": PARAMETERS},
}
LOG = {"type": "function", "function": {"name": "log"}}
ASKED = {"role": "user", "content": "Pay Ann 5"}


def pay(amount, to="Ann"):
    return {"name": "pay", "args": {"to": to, "amount": amount}}


async def ask(group, **fields):
    response = await complete(group, **{"messages": [ASKED], "tools": [PAY, LOG], **fields})
    return response, response.json()


async def test_a_refusal_names_what_is_contested_and_no_value_of_it():
    response, reply = await ask(supporting([pay(5111)], [pay(6222)], [pay(7333)]))
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["refusal"]
    contested = reply["coe"]["contested"]
    assert set(contested) == {"tool", "call", "arguments", "rest", "where"}
    assert contested["arguments"] == {"amount": pytest.approx(1.0986, abs=1e-4)}
    assert not any(amount in response.text for amount in ("5111", "6222", "7333"))


@pytest.mark.wording
async def test_a_refusal_says_what_the_proposals_differ_in():
    for proposals, parallel, said in (
        (
            [[pay(5111)], [pay(6222)], [pay(7333)]],
            True,
            'several answers share the lead; the proposals differ in "amount" of "pay". CoE 1.099',
        ),
        (
            [[pay(5), pay(6)]] * 3,
            False,
            "the agents agree on several calls, and the request allows one. CoE 0.000",
        ),
    ):
        _, reply = await ask(supporting(*proposals), parallel_tool_calls=parallel)
        refusal = reply["choices"][0]["message"]["refusal"]
        assert refusal.startswith(f"No answer: {said}")


async def test_a_name_that_only_the_agents_know_is_not_shown():
    tool = {
        "type": "function",
        "function": {"name": "pay", "parameters": {"additionalProperties": True}},
    }
    proposals = [[{"name": "pay", "args": {"secret password": amount}}] for amount in (1, 2, 3)]
    response, reply = await ask(supporting(*proposals), tools=[tool])
    assert "secret" not in response.text
    contested = reply["coe"]["contested"]
    assert (contested["arguments"], contested["where"]) == ({}, [])
    assert contested["rest"] == pytest.approx(1.0986, abs=1e-4)


@pytest.mark.parametrize("fields", [{"tools": []}, {"tool_choice": "none"}])
async def test_no_tools_are_shown_where_none_are_named_or_allowed(fields):
    agents = [ScriptedAgent(name, ["Done."]) for name in "ab"]
    _, reply = await ask(group_of(*agents, tools=[PAY]), **fields)
    assert (
        "tools" not in agents[0].requests[0]
    )  # nor the group's own, which the caller could not run
    (choice,) = reply["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Done.", "stop")


THREE_TEXTS = ["It is Lyon.", "It is Nice.", "It is Paris."]
ONE_TEXT = ["It is Paris.", "The answer is Paris.", "It is Paris."]


@pytest.mark.parametrize(
    ("said", "tools", "is_given"),
    [
        (THREE_TEXTS, [], False),
        (THREE_TEXTS, [PAY], False),
        ([[pay(5)], *THREE_TEXTS[1:]], [PAY], False),
        (ONE_TEXT, [], True),
        (ONE_TEXT, [PAY], True),
    ],
)
async def test_a_caller_who_adds_tools_does_not_loosen_what_texts_are_given(said, tools, is_given):
    """Texts that call nothing are one proposal: with any tool, the text of one agent was given."""
    group = create_group(*([each] for each in said), policy=SupportPolicy(0.6))
    _, reply = await ask(group, tools=tools)
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == ("stop" if is_given else "content_filter")
    assert (choice["message"]["content"] == "It is Paris.") == is_given
    if is_given:
        assert reply["coe"]["answer_kind"] == ("no_call" if tools else "answer")


async def test_several_calls_where_the_request_allows_one():
    group = supporting(*[[pay(5), pay(6)]] * 3)
    assert len((await ask(group))[1]["choices"][0]["message"]["tool_calls"]) == 2
    _, reply = await ask(group, parallel_tool_calls=False)
    assert reply["choices"][0]["message"]["refusal"]
    assert reply["coe"]["action"] == "abstain"
    assert (await ask(supporting(*[[pay(5)]] * 3), parallel_tool_calls=False))[1]["coe"][
        "action"
    ] == "answer"


def call_of(identity="1", name="pay", arguments='{"to": "Ann"}'):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": [*calls]}


def result(identity="1", content="paid"):
    return {"role": "tool", "tool_call_id": identity, "content": content}


async def test_the_agents_see_calls_and_results():
    agent = ScriptedAgent("a", ["Done."])
    messages = [ASKED, calling(call_of(), call_of("2", "log", "{}")), result("2"), result()]
    _, reply = await ask(group_of(agent), messages=messages)
    (request,) = agent.requests
    assert request["question"] == "Pay Ann 5"
    assert [message["role"] for message in request["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert [call["id"] for call in request["messages"][1]["tool_calls"]] == ["1", "2"]
    assert [message["tool_call_id"] for message in request["messages"][2:]] == ["2", "1"]
    assert reply["choices"][0]["message"]["content"] == "Done."


IDS = st.sampled_from(["1", "2", "3"])
MESSAGES = st.lists(
    st.builds(lambda ids: calling(*map(call_of, ids)), st.lists(IDS, max_size=3))
    | st.builds(result, IDS)
    | st.just(ASKED)
)


@given(MESSAGES)
def test_a_conversation_passes_exactly_if_each_call_is_followed_by_its_one_result(messages):
    def holds():
        rest = list(messages)
        while rest:
            message = rest.pop(0)
            if message["role"] == "tool":
                return False
            ids = sorted(call["id"] for call in message.get("tool_calls", []))
            given, rest = rest[: len(ids)], rest[len(ids) :]
            if (
                len(set(ids)) < len(ids)
                or sorted(each.get("tool_call_id", "") for each in given) != ids
            ):
                return False
        return True

    try:
        check_results(messages)
    except ApiError:
        assert not holds()
    else:
        assert holds()
