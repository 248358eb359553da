"""A bound in money of a council: once it is spent, no member is asked, and nothing runs."""

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call

from coe_agents import CoECouncil, ModelAgent
from coe_agents.middleware.withheld import is_withheld
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import MODES, THREAD, agent, run
from tests.middleware.calls import ANN, BOB, DONE, LOOKS, PAY, call, replies, says
from tests.middleware.council import AGREE, members
from tests.middleware.people import APPROVE, decide

PRICE = {"input": 1e5, "output": 1e5}
USED = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
"""Of a member's reply, which costs 0.6."""


def council(*, budget, tools, **options):
    """The members, each of which costs 0.6 a turn, and their council."""
    asked = members(AGREE, AGREE)
    for member in asked:
        member.price_per_million = PRICE
        member.script = [[call(**ANN)]]
    gate = CoECouncil(asked, cost_budget=budget, tools=tools, **options)
    return asked, gate


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("tools", [None, ["transfer_money"]], ids=["all", "named"])
async def test_once_the_money_is_spent_nobody_is_asked_and_nothing_runs(
    tools, mode, adaptive, bank
):
    asked, gate = council(budget=1.2, tools=tools, adaptive=adaptive)
    calls = [says(call(id=name, **ANN)) for name in "xyz"]
    paying = agent(None, bank, *calls, DONE, middleware=[gate])
    state = await run(mode, paying, PAY)
    assert bank.transfers == [("Ann", 1)]
    assert [len(member.requests) for member in asked] == [1, 1]
    assert state["council"]["cause"] == "budget"
    _, withheld, *_ = replies(state)
    assert is_withheld(withheld)
    assert "cost_budget of 1.2" in state["council"]["reason"]
    assert withheld.text.endswith("Do not repeat the call unchanged.")


def paying(bank, gate, *names):
    calls = [says(LOOKS)]
    for name in names:
        said = says(call(id=name, **ANN))
        said.usage_metadata = USED
        calls.append(said)
    return agent(None, bank, *calls, DONE, middleware=[gate])


def test_each_turn_adds_what_its_members_used_and_the_drivers_tokens_do_not_count(bank):
    _, gate = council(budget=2.4, tools=["transfer_money"])
    paying(bank, gate, *"xyz").invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1)] * 2


def test_where_the_driver_fails_no_member_is_asked_since_nothing_would_count_it(bank):
    def fail(messages):
        raise ConnectionError("down")

    asked, gate = council(budget=1.2, tools=None)
    failing = agent(None, bank, driver=ScriptedDriver(script=fail), middleware=[gate])
    for given in (PAY, None):
        with pytest.raises(ConnectionError):
            failing.invoke(given, THREAD)
    assert [member.requests for member in asked] == [[], []]


@pytest.mark.parametrize("mode", MODES)
async def test_no_member_is_asked_about_what_another_council_withholds(mode, bank):
    asked, gate = council(budget=1.2, tools=None)
    others = members([[call(**BOB)], "Done."])
    inner = CoECouncil(others, tools=["transfer_money"], name="inner")
    calls = [says(call(id=name, **ANN)) for name in "xy"]
    paying = agent(None, bank, *calls, DONE, middleware=[gate, inner])
    await run(mode, paying, PAY)
    [other] = others
    assert len(other.requests) == 2
    assert [len(member.requests) for member in asked] == [1, 1]  # about the answer


def test_where_a_member_does_not_say_what_it_used_nobody_is_asked_again(bank):
    [silent, _], gate = council(budget=100, tools=["transfer_money"])
    reply = silent.sample

    def sample(request, config=None):
        unknown = {"input_tokens": None, "output_tokens": None}
        return {**reply(request), "usage": unknown}

    silent.sample = sample
    state = paying(bank, gate, *"xyz").invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1)]
    assert "it is not known how much is spent" in state["council"]["reason"]
    assert len(silent.requests) == 1


@pytest.mark.parametrize("is_asked_anew", [False, True])
def test_what_was_spent_before_a_person_decided_counts_afterwards(
    is_asked_anew, bank, other_process
):
    asked, gate = council(budget=1.2, tools=["transfer_money"], on_uncertain="interrupt")
    for member in asked:
        member.script = [[call(**BOB)]]
    compiled = paying(bank, gate, *"xy")
    compiled.invoke(PAY, THREAD)
    if is_asked_anew:
        other_process()
        compiled.invoke(decide(APPROVE), THREAD)
    state = compiled.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 1)]
    assert state["council"]["cause"] == "budget"
    assert [len(member.requests) for member in asked] == [1, 1]


OWN = {"model_name": "m-2025-08-07", "model_provider": "openai"}
UNREADABLE = invalid_tool_call(name="transfer_money", args="{", id="c1", error="no JSON")


@pytest.mark.parametrize(
    "reply",
    [
        AIMessage("", invalid_tool_calls=[UNREADABLE]),
        AIMessage("", tool_calls=[call(**ANN)], response_metadata=OWN),
    ],
    ids=["invalid", "the driver's own"],
)
def test_a_reply_that_is_no_vote_costs_as_well(reply, bank):
    asked = []

    def say(messages):
        asked.append(messages)
        return reply.model_copy(update={"usage_metadata": USED})

    model = ScriptedDriver(script=say)
    member = ModelAgent("member", model, n_samples=1, retries=0, price_per_million=PRICE)
    gate = CoECouncil([member], cost_budget=0.6, tools=["transfer_money"])
    messages = []
    for name in "xy":
        calls = [call(id=name, **ANN)]
        messages.append(AIMessage("", tool_calls=calls, response_metadata=OWN))
    paying_ann = agent(None, bank, *messages, DONE, middleware=[gate])
    state = paying_ann.invoke(PAY, THREAD)
    assert state["council"]["cause"] == "budget"
    assert len(asked) == 1
    assert bank.transfers == []
