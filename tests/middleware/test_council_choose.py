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
    said = AIMessage(
        blocks, id="theirs", tool_calls=[call(id="t1", **BOB)], response_metadata={"model": "m"}
    )
    agents = [ModelAgent(name, ScriptedDriver(script=[said, DONE]), n_samples=1) for name in "ab"]
    state, transfers = choosing(agents, says(call(**ANN)), DONE)
    assert transfers == [("Bob", 2.0)]
    first = state["messages"][1]
    assert first.id == "theirs"
    assert first.content == blocks
    assert first.tool_calls == said.tool_calls
    assert first.response_metadata["model"] == "m"
    said = AIMessage("mine", id="mine", tool_calls=[call(**ANN)])
    state, transfers = choosing(
        members([[call(**ANN)], "Done."], [[call(**BOB)], "Done."]), said, DONE
    )
    assert state["messages"][1].id == "mine"
    assert transfers == [("Ann", 1.0)]


@pytest.mark.parametrize("names", ["abc", "cba", "xay"])
def test_names_and_order_do_not_choose_among_equal_actions(names):
    writings = ("1", 1.0, 1)  # one action: the tool receives 1.0
    agents = [
        Member(name, [call(to="Ann", amount=own)], "Done.")
        for name, own in zip(names, writings, strict=True)
    ]
    state, transfers = choosing(agents, says(call(**BOB)), DONE)
    assert transfers == [("Ann", 1.0)]
    assert (
        json.dumps(state["messages"][1].tool_calls[0]["args"]["amount"]) == '"1"'
    )  # the first by its JSON


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
    agents = members(
        *(["No need."] if args is None else [[call(**args)], "Done."] for args in proposed)
    )
    state, transfers = choosing(agents, driver, DONE, max_blocked=1)
    assert transfers == expected
    if proposed[0] is None:
        assert state["messages"][-1].text == "No need."


def test_a_members_structured_answer_is_read_as_the_drivers_would_be():
    said = AIMessage("", tool_calls=[weather("cloudy", "w7")], id="theirs")
    agents = [ModelAgent(name, ScriptedDriver(script=[said]), n_samples=1) for name in "ab"]
    state, _ = choosing(agents, says(weather("clear")), response_format=ToolStrategy(Weather))
    assert state["structured_response"] == Weather(sky="cloudy")
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool"]
    assert state["messages"][1].id == "theirs"
    assert state["messages"][2].tool_call_id == "w7"


def test_a_members_structured_answer_has_the_message_that_the_strategy_names():
    agents = members(*[[[weather("cloudy")]]] * 2)
    strategy = ToolStrategy(Weather, tool_message_content="Noted.")
    state, _ = choosing(agents, says(weather("clear")), response_format=strategy)
    assert state["messages"][-1].text == "Noted."


def test_a_members_call_goes_on_before_a_structured_answer():
    agents = members(*[[[call(**BOB)], [weather("clear")]]] * 2)
    script = says(call(**ANN)), says(weather("clear"))
    state, transfers = choosing(agents, *script, response_format=ToolStrategy(Weather))
    assert transfers == [("Bob", 2.0)]
    assert state["structured_response"] == Weather(sky="clear")


def test_a_text_in_place_of_a_structured_answer_is_not_what_members_answered():
    agents = members(*[[[weather("clear")]]] * 2)
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
    state, _ = choosing(
        members(script, script), driver, response_format=response_format, max_blocked=1
    )
    assert state.get("structured_response") is None
    assert [state["council"][key] for key in ("action", "proposer", "calls")] == [
        "abstain",
        None,
        None,
    ]
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
