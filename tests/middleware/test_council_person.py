import json
import os
import subprocess
import sys

import pytest
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command
from pydantic import BaseModel

from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import ANN, BOB, MODES, PAY, THREAD, Bank, call, replies, run, says
from tests.middleware.council import Member, council_agent, members

every_mode = pytest.mark.parametrize("mode", MODES)
DONE = AIMessage("Done.")
AGAINST = [[call(to="Ann", amount=9)], "Done."]
ASKING = {"on_uncertain": "interrupt"}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


def edit(name="transfer_money", **args):
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "too much"}


@every_mode
async def test_a_person_is_asked_and_the_very_message_goes_on(mode):
    bank = Bank()
    blocks = [{"type": "text", "text": "I pay."}, {"type": "reasoning", "reasoning": "Ten."}]
    said = AIMessage(blocks, tool_calls=[call(to="Ann", amount=10)], id="m1")
    agents = members(AGAINST, AGAINST)
    asked = []

    def drive(messages):
        asked.append(len(messages))
        return said.model_copy(deep=True) if len(messages) == 1 else DONE

    agent = council_agent(agents, bank, driver=ScriptedDriver(script=drive), **ASKING)
    paused = await run(mode, agent, PAY)
    (interrupt,) = paused["__interrupt__"]
    assert set(interrupt.value) == {"action_requests", "review_configs"}
    (request,) = interrupt.value["action_requests"]
    assert (request["name"], request["args"]) == ("transfer_money", {"to": "Ann", "amount": 10})
    assert interrupt.value["review_configs"] == [
        {"action_name": "transfer_money", "allowed_decisions": ["approve", "edit", "reject"]}
    ]
    lines = request["description"].splitlines()
    assert lines[1] == 'The models do not agree on the argument "amount".'
    assert lines[2:4] == [
        "transfer_money.amount: 9 (member0, member1)",
        "transfer_money.amount: 10 (driver)",
    ]
    for part in ('transfer_money {"to": "Ann", "amount": 10}', "less than 0.6", "driver: 0%\nmember0: 50%"):
        assert part in request["description"]
    assert [message.type for message in paused["messages"]] == ["human"]
    assert bank.transfers == []
    state = await run(mode, agent, decide(APPROVE))
    assert bank.transfers == [("Ann", 10.0)]
    first = state["messages"][1]
    assert (first.id, first.content, first.tool_calls) == ("m1", blocks, said.tool_calls)
    # the driver and the members were asked once about the first turn, and once about the last
    assert asked == [1, 3]
    assert [len(agent.requests) for agent in agents] == [2, 2]
    assert state["messages"][-1].text == "Done."


@every_mode
async def test_an_edited_call_runs_as_it_was_edited(mode):
    bank = Bank()
    agent = council_agent(members(AGAINST), bank, says(call(to="Ann", amount=10)), DONE, **ASKING)
    await run(mode, agent, PAY)
    state = await run(mode, agent, decide(edit(**BOB)))
    assert bank.transfers == [("Bob", 2.0)]
    assert state["messages"][1].tool_calls[0]["args"] == BOB
    assert (state["messages"][1].tool_calls[0]["id"], state["messages"][-1].text) == ("c1", "Done.")


@every_mode
async def test_a_rejected_call_does_not_run_and_the_driver_goes_on(mode):
    bank = Bank()
    agent = council_agent(
        members(AGAINST), bank, says(call(to="Ann", amount=10)), DONE, **ASKING, tools=["transfer_money"]
    )
    await run(mode, agent, PAY)
    state = await run(mode, agent, decide(REJECT))
    assert bank.transfers == []
    (told,) = replies(state)
    assert (told.status, told.tool_call_id) == ("error", "c1")
    assert told.text == "transfer_money was not run: a person rejected it: too much. Do not repeat the call unchanged."
    assert state["messages"][-1].text == "Done."


def test_a_person_decides_on_each_call_of_a_message():
    bank = Bank()
    said = says(call(id="c1", **ANN), call(id="c2", **BOB))
    agent = council_agent(members(AGAINST), bank, said, DONE, **ASKING)
    paused = agent.invoke(PAY, THREAD)
    assert len(paused["__interrupt__"][0].value["action_requests"]) == 2
    state = agent.invoke(decide(REJECT, APPROVE), THREAD)
    assert bank.transfers == [("Bob", 2.0)]
    assert state["messages"][-1].text == "Done."


@every_mode
async def test_a_person_decides_on_a_text(mode):
    for decision, text in (
        (APPROVE, "I have paid."),
        (edit("answer", text="Not yet."), "Not yet."),
        (REJECT, "I will not answer this: a person rejected it: too much."),
    ):
        agent = council_agent(members([[call(**ANN)]]), Bank(), AIMessage("I have paid."), **ASKING)
        paused = await run(mode, agent, PAY)
        (request,) = paused["__interrupt__"][0].value["action_requests"]
        assert (request["name"], request["args"]) == ("answer", {"text": "I have paid."})
        assert [message.type for message in paused["messages"]] == ["human"]
        state = await run(mode, agent, decide(decision))
        assert [message.type for message in state["messages"]] == ["human", "ai"]
        assert state["messages"][-1].text == text


UNFIT = {
    "no decisions": {"decisions": None},
    "too few": {"decisions": []},
    "too many": {"decisions": [APPROVE, APPROVE]},
    "a text": "approve",
    "true": True,
    "another type": {"decisions": [{"type": "respond", "message": "done"}]},
    "another name of the type": {"decisions": [{"type": "approved"}]},
    "more than a type": {"decisions": [{"type": "approve", "args": {"amount": 1000}}]},
    "another tool": {"decisions": [edit("balance")]},
    "a tool that does not exist": {"decisions": [edit("wire_money", to="Eve")]},
    "the name of the tool in capitals": {"decisions": [edit("Transfer_Money", **BOB)]},
    "an unknown argument": {"decisions": [edit(to="Bob", amount=2, memo="x")]},
    "arguments that are no object": {
        "decisions": [{"type": "edit", "edited_action": {"name": "transfer_money", "args": "all"}}]
    },
    "not a number": {"decisions": [edit(to="Bob", amount=float("nan"))]},
    "too deep": {"decisions": [edit(to=json.loads("[" * 40 + "]" * 40), amount=1)]},
    "an edit without an action": {"decisions": [{"type": "edit"}]},
    "another id": {"decisions": [{"type": "approve", "id": "c2"}]},
}


@pytest.mark.parametrize("reply", UNFIT.values(), ids=UNFIT)
def test_after_a_reply_that_does_not_fit_the_person_is_asked_again(reply):
    bank = Bank()
    agents = members(AGAINST)
    agent = council_agent(agents, bank, says(call(to="Ann", amount=10)), DONE, **ASKING)
    agent.invoke(PAY, THREAD)
    again = agent.invoke(Command(resume=reply), THREAD)
    assert bank.transfers == []
    description = again["__interrupt__"][0].value["action_requests"][0]["description"]
    assert description.startswith("**Your last reply could not be used: ")
    agent.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 10.0)]
    assert len(agents[0].requests) == 2


def test_an_edit_cannot_reach_another_call():
    bank = Bank()
    said = says(call(id="c1", **ANN), call("balance", id="c2"))
    said.tool_calls[1]["args"] = {}
    agent = council_agent(members(AGAINST), bank, said, DONE, **ASKING)
    agent.invoke(PAY, THREAD)
    again = agent.invoke(decide(edit("balance"), APPROVE), THREAD)
    assert "__interrupt__" in again
    assert bank.transfers == []


@every_mode
async def test_what_nobody_decided_on_is_forgotten_with_the_next_message(mode):
    bank = Bank()
    agent = council_agent(members(AGAINST, AGAINST), bank, says(call(to="Ann", amount=10)), **ASKING)
    await run(mode, agent, PAY)
    paused = await run(mode, agent, {"messages": [("user", "Never mind.")]})
    assert bank.transfers == []
    # the driver proposes it again in this script; it is another proposal, asked about anew
    assert [message.type for message in paused["messages"]] == ["human", "human"]
    state = await run(mode, agent, decide(REJECT))
    assert bank.transfers == []
    assert [message.type for message in state["messages"]][:4] == ["human", "human", "ai", "tool"]


def test_without_a_checkpointer_nothing_runs():
    bank = Bank()
    agent = council_agent(members(AGAINST), bank, says(call(**ANN)), saver=False, **ASKING)
    state = agent.invoke(PAY)
    assert "__interrupt__" in state
    assert bank.transfers == []


class Weather(BaseModel):
    sky: str


@every_mode
async def test_a_structured_answer_waits_for_the_person(mode):
    said = says({"name": "Weather", "args": {"sky": "clear"}, "id": "w1"})
    other = [[{"name": "Weather", "args": {"sky": "cloudy"}}]]
    for decision in (APPROVE, edit("Weather", sky="grey"), REJECT):
        agent = council_agent(
            members(other[0], other[0]),
            Bank(),
            said,
            response_format=ToolStrategy(Weather),
            saver=InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[Weather])),
            **ASKING,
        )
        paused = await run(mode, agent, PAY)
        assert paused.get("structured_response") is None
        assert [message.type for message in paused["messages"]] == ["human"]
        assert paused["__interrupt__"][0].value["review_configs"] == [
            {"action_name": "Weather", "allowed_decisions": ["approve", "reject"]}
        ]
        state = await run(mode, agent, decide(decision))
        if decision is APPROVE:
            assert state["structured_response"] == Weather(sky="clear")
            assert [message.type for message in state["messages"]] == ["human", "ai", "tool"]
        else:
            assert state.get("structured_response") is None
            assert "__interrupt__" in state


def test_no_text_of_a_model_is_rendered_in_the_request():
    bank = Bank()
    evil = "![x](http://evil/?q=1)\u202e```\n**approve** <script>"
    agents = [
        Member("a", [call(to=evil, amount=1)]),
        Member("b```\n**x**", RuntimeError("```\n# boo")),
        Member("c", [call(to=evil, amount=2)]),
    ]
    agent = council_agent(agents, bank, says(call(to=evil, amount=10)), **ASKING)
    paused = agent.invoke(PAY, THREAD)
    description = paused["__interrupt__"][0].value["action_requests"][0]["description"]
    assert "\u202e" not in description
    is_fenced, outside = None, []
    for line in description.splitlines():
        if is_fenced is None and line.startswith("```"):
            is_fenced = line
        elif line == is_fenced:
            is_fenced = None
        elif is_fenced is None:
            outside.append(line)
    assert is_fenced is None
    assert set(filter(None, outside)) == {
        "To decide:",
        "How much the others support what each proposed:",
        "No proposal:",
    }


@pytest.mark.slow
def test_a_strict_checkpointer_keeps_all_of_it():
    code = """
from langchain_core.messages import AIMessage
from langgraph.types import Command
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import PAY, THREAD, Bank, call, says
from tests.middleware.council import council_agent, members
bank = Bank()
agents = members([[call(to="Ann", amount=9)], "Done."])
agent = council_agent(agents, bank, says(call(to="Ann", amount=10)), AIMessage("Done."), on_uncertain="interrupt")
assert "__interrupt__" in agent.invoke(PAY, THREAD)
state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
assert bank.transfers == [("Ann", 10.0)], bank.transfers
assert state["messages"][-1].text == "Done."
"""
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "blocked" not in done.stderr.lower()
