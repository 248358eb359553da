import json
from typing import Literal

import pytest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from coe_agents import ModelAgent, SupportPolicy, ThresholdPolicy
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import ANN, BOB, MODES, PAY, THREAD, Bank, call, run, says
from tests.middleware.council import Member, council_agent, members

every_mode = pytest.mark.parametrize("mode", MODES)
DONE = AIMessage("Done.")
PLURALITY = SupportPolicy(0.0)


def choosing(agents, bank, *messages, **options):
    return council_agent(agents, bank, *messages, **{"mode": "choose", "policy": PLURALITY, **options})


@every_mode
async def test_the_action_that_most_propose_goes_on(mode):
    bank = Bank()
    agents = members([[call(**BOB)], "Done."], [[call(**BOB)], "Done."], [[call(**ANN)], "Done."])
    state = await run(mode, choosing(agents, bank, says(call(to="Eve", amount=99)), DONE), PAY)
    assert bank.transfers == [("Bob", 2.0)]
    assert state["messages"][-1].text == "Done."


@every_mode
async def test_a_members_own_message_goes_on_unchanged(mode):
    bank = Bank()
    blocks = [{"type": "reasoning", "reasoning": "Bob it is."}, {"type": "text", "text": "I pay Bob."}]
    said = AIMessage(blocks, id="theirs", tool_calls=[call(id="t1", **BOB)], response_metadata={"model": "m"})
    agents = [ModelAgent(name, ScriptedDriver(script=[said, DONE]), n_samples=1) for name in "ab"]
    state = await run(mode, choosing(agents, bank, says(call(**ANN)), DONE), PAY)
    assert bank.transfers == [("Bob", 2.0)]
    first = state["messages"][1]
    assert (first.id, first.content, first.tool_calls) == ("theirs", blocks, said.tool_calls)
    assert first.response_metadata["model"] == "m"


def test_the_drivers_own_message_goes_on_if_it_is_among_those_that_most_propose():
    bank = Bank()
    said = AIMessage("mine", id="mine", tool_calls=[call(**ANN)])
    agents = members([[call(**ANN)], "Done."], [[call(**BOB)], "Done."])
    state = choosing(agents, bank, said, DONE).invoke(PAY, THREAD)
    assert state["messages"][1].id == "mine"
    assert bank.transfers == [("Ann", 1.0)]


def test_a_tie_is_broken_by_nothing():
    bank = Bank()
    agents = members([[call(**BOB)]], [[call(**BOB)]], [[call(**ANN)]])
    state = choosing(agents, bank, says(call(**ANN)), max_blocked=1).invoke(PAY, THREAD)
    assert bank.transfers == []
    assert "a tie is never answered" in state["council"]["reason"]


@pytest.mark.parametrize("names", ["abc", "cba", "xay"])
def test_names_and_order_do_not_choose_among_equal_actions(names):
    bank = Bank()
    writings = ("1", 1.0, 1)  # one action: the tool receives 1.0
    agents = [Member(name, [call(to="Ann", amount=own)], "Done.") for name, own in zip(names, writings, strict=True)]
    state = choosing(agents, bank, says(call(**BOB)), DONE).invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1.0)]
    assert json.dumps(state["messages"][1].tool_calls[0]["args"]["amount"]) == '"1"'  # the first by its JSON


def test_one_member_that_writes_otherwise_does_not_decide_what_runs():
    bank = Bank()
    agents = members(*([[call(to=to, amount=1)], "Done."] for to in ("ANN", "Ann", "Ann")))
    choosing(agents, bank, says(call(**BOB)), DONE).invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1.0)]


def test_an_unreadable_driver_does_not_stop_the_others():
    bank = Bank()
    agents = members([[call(**ANN)], "Done."], [[call(**ANN)], "Done."])
    state = choosing(agents, bank, says(call("nonsense", x=1)), DONE).invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1.0)]
    assert state["messages"][1].tool_calls[0]["name"] == "transfer_money"


def test_members_that_answer_outvote_a_call():
    bank = Bank()
    state = choosing(members(["No need."], ["No need."]), bank, says(call(**ANN)), DONE).invoke(PAY, THREAD)
    assert bank.transfers == []
    assert state["messages"][-1].text == "No need."


def test_an_uncertain_group_chooses_nothing():
    bank = Bank()
    agents = members([[call(**BOB)]], [[call(**BOB)]], [[call(**ANN)]])
    choosing(agents, bank, says(call(to="Eve", amount=9)), policy=ThresholdPolicy(0.1), max_blocked=1).invoke(
        PAY, THREAD
    )
    assert bank.transfers == []


def test_the_members_are_asked_only_about_gated_calls():
    bank = Bank()
    agents = members([[call(**BOB)]], [[call(**BOB)]])
    state = choosing(agents, bank, AIMessage("Hello."), tools=["transfer_money"]).invoke(PAY, THREAD)
    assert state["messages"][-1].text == "Hello."
    assert agents[0].requests == []


class Weather(BaseModel):
    """The weather."""

    sky: Literal["clear", "cloudy"]


def weather(sky, id="w1"):
    return {"name": "Weather", "args": {"sky": sky}, "id": id}


@every_mode
async def test_a_members_structured_answer_is_read_as_the_drivers_would_be(mode):
    said = AIMessage("", tool_calls=[weather("cloudy", "w7")], id="theirs")
    agents = [ModelAgent(name, ScriptedDriver(script=[said]), n_samples=1) for name in "ab"]
    agent = choosing(agents, Bank(), says(weather("clear")), response_format=ToolStrategy(Weather))
    state = await run(mode, agent, PAY)
    assert state["structured_response"] == Weather(sky="cloudy")
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool"]
    assert (state["messages"][1].id, state["messages"][2].tool_call_id) == ("theirs", "w7")


def test_a_members_structured_answer_that_does_not_fit_goes_not_on():
    agents = members([[weather("purple")]], [[weather("purple")]])
    agent = choosing(agents, Bank(), says(weather("clear")), response_format=ToolStrategy(Weather), max_blocked=1)
    state = agent.invoke(PAY, THREAD)
    assert state.get("structured_response") is None
    assert "no structured answer that can be read" in state["messages"][-1].text


def test_a_members_text_is_no_structured_answer():
    agents = members(["It is cloudy."], ["It is cloudy."])
    driver = says(call(**ANN))
    agent = choosing(agents, Bank(), driver, response_format=ProviderStrategy(Weather), max_blocked=1)
    state = agent.invoke(PAY, THREAD)
    assert state.get("structured_response") is None
    assert state["messages"][-1].text.startswith("I will not answer this")
