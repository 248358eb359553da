"""A council in the mode "choose": the action that most propose goes on, whoever wrote it."""

import json
from functools import partial

import pytest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call

from coe_agents import ModelAgent, SupportPolicy
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.calls import ANN, BOB, DONE, Weather, call, says, weather
from tests.middleware.council import Member, members, run_council

EVE = says(call(to="Eve", amount=99))


choosing = partial(run_council, mode="choose", policy=SupportPolicy(0.0))


def test_the_message_of_a_member_goes_on_unchanged_or_the_drivers_own_if_it_is_among_those():
    blocks = [
        {"type": "reasoning", "reasoning": "Bob it is."},
        {"type": "text", "text": "I pay Bob."},
    ]
    theirs = AIMessage(
        blocks, id="theirs", tool_calls=[call(id="t1", **BOB)], response_metadata={"model": "m"}
    )
    agents = [ModelAgent(name, ScriptedDriver(script=[theirs, DONE]), n_samples=1) for name in "ab"]
    state, transfers = choosing(agents, says(call(**ANN)), DONE)
    assert transfers == [("Bob", 2.0)]
    first = state["messages"][1]
    assert first.id == "theirs"
    assert first.content == blocks
    assert first.tool_calls == theirs.tool_calls
    assert first.response_metadata["model"] == "m"

    mine = AIMessage("mine", id="mine", tool_calls=[call(**ANN)])
    to_ann = [call(**ANN)]
    to_bob = [call(**BOB)]
    agents = members([to_ann, "Done."], [to_bob, "Done."])
    state, transfers = choosing(agents, mine, DONE)
    assert state["messages"][1].id == "mine"
    assert transfers == [("Ann", 1.0)]


@pytest.mark.parametrize("names", ["abc", "cba", "xay"])
def test_names_and_order_do_not_choose_among_equal_actions(names):
    writings = ("1", 1.0, 1)  # one action: the tool receives 1.0
    agents = []
    for name, amount in zip(names, writings, strict=True):
        payment = call(to="Ann", amount=amount)
        agents.append(Member(name, [payment], "Done."))
    state, transfers = choosing(agents, says(call(**BOB)), DONE)
    assert transfers == [("Ann", 1.0)]
    [made] = state["messages"][1].tool_calls
    assert json.dumps(made["args"]["amount"]) == '"1"'  # the first by its JSON


@pytest.mark.parametrize(
    ("proposed", "driver", "expected"),
    [
        ((BOB, BOB, ANN), EVE, [("Bob", 2.0)]),
        # one member that writes otherwise does not decide what runs
        (({"to": "ANN", "amount": 1}, ANN, ANN), EVE, [("Ann", 1.0)]),
        # an unreadable driver does not stop the others
        ((ANN, ANN), says(call("nonsense", x=1)), [("Ann", 1.0)]),
        ((BOB, BOB, ANN), says(call(**ANN)), []),  # a tie is broken by nothing
        ((None, None), says(call(**ANN)), []),
    ],
)
def test_the_action_that_most_propose_goes_on(proposed, driver, expected):
    scripts = []
    for args in proposed:
        scripts.append(["No need."] if args is None else [[call(**args)], "Done."])
    state, transfers = choosing(members(*scripts), driver, DONE, max_blocked=1)
    assert transfers == expected
    if proposed[0] is None:
        assert state["messages"][-1].text == "No need."


def test_a_members_structured_answer_is_read_as_the_drivers_would_be():
    said = AIMessage("", tool_calls=[weather("cloudy", "w7")], id="theirs")
    agents = [ModelAgent(name, ScriptedDriver(script=[said]), n_samples=1) for name in "ab"]
    state, _ = choosing(agents, says(weather("clear")), response_format=ToolStrategy(Weather))
    assert state["structured_response"] == Weather(sky="cloudy")
    question, chosen, reply = state["messages"]
    assert question.type == "human"
    assert chosen.type == "ai"
    assert chosen.id == "theirs"
    assert reply.type == "tool"
    assert reply.tool_call_id == "w7"


def test_a_members_structured_answer_has_the_message_that_the_strategy_names():
    cloudy = [[weather("cloudy")]]
    agents = members(cloudy, cloudy)
    strategy = ToolStrategy(Weather, tool_message_content="Noted.")
    state, _ = choosing(agents, says(weather("clear")), response_format=strategy)
    assert state["messages"][-1].text == "Noted."


def test_a_members_call_goes_on_before_a_structured_answer():
    pays_first = [[call(**BOB)], [weather("clear")]]
    agents = members(pays_first, pays_first)
    script = says(call(**ANN)), says(weather("clear"))
    state, transfers = choosing(agents, *script, response_format=ToolStrategy(Weather))
    assert transfers == [("Bob", 2.0)]
    assert state["structured_response"] == Weather(sky="clear")


def test_a_text_in_place_of_a_structured_answer_is_not_what_members_answered():
    clear = [[weather("clear")]]
    agents = members(clear, clear)
    state, _ = run_council(agents, DONE, response_format=ToolStrategy(Weather))
    assert state["council"]["action"] == "abstain"


@pytest.mark.parametrize(
    ("script", "driver", "response_format"),
    [
        ([[weather("purple")]], says(weather("clear")), ToolStrategy(Weather)),
        ([[weather("clear"), weather("cloudy")]], says(weather("clear")), ToolStrategy(Weather)),
        (["It is cloudy."], says(call(**ANN)), ProviderStrategy(Weather)),
    ],
)
def test_a_members_message_without_one_fitting_structured_answer_goes_not_on(
    script, driver, response_format
):
    agents = members(script, script)
    state, _ = choosing(agents, driver, response_format=response_format, max_blocked=1)
    assert state.get("structured_response") is None
    decision = state["council"]
    assert decision["action"] == "abstain"
    assert decision["proposer"] is None
    assert decision["calls"] is None
    assert "coe_withheld" in state["messages"][-1].response_metadata


def test_what_cannot_be_read_of_a_members_message_goes_not_on():
    class Careless(Member):
        def sample(self, request, config=None):
            unread = [invalid_tool_call(name="transfer_money", args="{", id="t2", error="no JSON")]
            message = AIMessage(
                "", id="theirs", tool_calls=[call(**BOB)], invalid_tool_calls=unread
            )
            return {**super().sample(request, config), "messages": {0: message}}

    agents = [Careless(name, [call(**BOB)], "Done.") for name in "ab"]
    state, transfers = choosing(agents, says(call(**ANN)), DONE)
    assert transfers == [("Bob", 2.0)]
    assert state["messages"][1].invalid_tool_calls == []
