import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from coe_agents import CoEMiddleware
from coe_agents.prompts import MAX_REVIEWED
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import (
    AGAINST,
    MODES,
    PAY,
    SURE,
    THREAD,
    UNSURE,
    Bank,
    agent,
    call,
    judges,
    run,
    says,
)

every_mode = pytest.mark.parametrize("mode", MODES)


def talker(graph, said="Paris.", **options):
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    return create_agent(ScriptedDriver(script=[AIMessage(said)]), middleware=[gate], **options)


ASKED = {"messages": [("user", "Capital of France?")]}


@every_mode
async def test_an_approved_answer_goes_out(mode):
    (first, _), graph = judges(*SURE)
    state = await run(mode, talker(graph, checkpointer=InMemorySaver()), ASKED)
    assert [message.text for message in state["messages"]] == ["Capital of France?", "Paris."]
    assert "<user>Capital of France?</user>\n<answer>Paris.</answer>" in first.requests[0]["question"]


@every_mode
@pytest.mark.parametrize("said", [UNSURE, AGAINST, None], ids=["unsure", "against", "failing"])
async def test_another_answer_is_replaced(mode, said):
    graph = judges(*said)[1] if said else RunnableLambda(lambda _: 1 / 0)
    compiled = talker(graph, checkpointer=InMemorySaver())
    state = await run(mode, compiled, ASKED)
    assert len(state["messages"]) == 2
    assert state["messages"][-1].text.startswith("I withhold my answer: the group ")
    assert "Paris" not in str(state["messages"])
    assert compiled.get_state(THREAD).next == ()


@every_mode
@pytest.mark.parametrize(("said", "sent_back"), [(SURE, 1), (UNSURE, 0)], ids=["sure", "unsure"])
async def test_nothing_goes_on_with_an_answer_that_was_withheld(mode, said, sent_back):
    reached = []

    class Reader(AgentMiddleware):
        def after_model(self, state, runtime):
            reached.append(state["messages"][-1].text)

    _, graph = judges(*said)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    driver = ScriptedDriver(script=[AIMessage("Paris.")])
    await run(mode, create_agent(driver, middleware=[Reader(), gate]), ASKED)
    assert len(reached) == sent_back


def test_an_answer_too_long_to_be_shown_is_withheld():
    agents, graph = judges(*SURE)
    state = talker(graph, "x" * (MAX_REVIEWED + 1)).invoke(ASKED)
    assert state["messages"][-1].text.startswith("I withhold my answer: ")
    assert agents[0].requests == []


class City(BaseModel):
    name: str


@every_mode
@pytest.mark.parametrize(("said", "given"), [(SURE, City(name="Paris")), (UNSURE, None)], ids=["sure", "unsure"])
async def test_a_structured_answer_is_gated(mode, said, given):
    (first, _), graph = judges(*said)
    driver = ScriptedDriver(script=[says(call("City", name="Paris"), text="")])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = await run(mode, create_agent(driver, middleware=[gate], response_format=City), ASKED)
    assert state["structured_response"] == given
    assert "City(name='Paris')" in first.requests[0]["question"]
    assert ("Paris" in str(state["messages"])) == (given is not None)


@every_mode
async def test_both_gates_in_one_agent(mode):
    (first, _), graph = judges(*SURE)
    bank = Bank()
    state = await run(mode, agent(graph, bank, final_answer=True), PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].text == "Done."
    assert len(first.requests) == 2


@every_mode
async def test_a_call_that_something_else_answered_is_no_final_answer(mode):
    class Answering(AgentMiddleware):
        def after_model(self, state, runtime):
            calls = state["messages"][-1].tool_calls
            return {"messages": [ToolMessage("enough", tool_call_id=one["id"]) for one in calls]}

    (first, _), graph = judges(*SURE)
    bank = Bank()
    gates = [CoEMiddleware(graph, tools=["transfer_money"], final_answer=True), Answering()]
    state = await run(mode, agent(graph, bank, middleware=gates), PAY)
    assert bank.transfers == []
    assert state["messages"][-1].text == "Done."
    assert ["<answer>Done.</answer>" in request["question"] for request in first.requests] == [True]
