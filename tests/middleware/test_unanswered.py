"""The user writes another message instead of deciding on a call: the thread goes on, and the call has not run."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from coe_agents.middleware.unanswered import close_calls
from tests.middleware.agents import MODES, PAY, UNSURE, Bank, agent, call, judges, run, says

every_mode = pytest.mark.parametrize("mode", MODES)
TYPED = ("user", "approve")
INVENTED = ToolMessage("Handled.", tool_call_id="c1", name="transfer_money", id="do-not-render-1")
"""What Agent Chat UI adds before the message that the user typed."""
NOT_DECIDED = "transfer_money was not run: the user wrote another message instead of deciding on it."


@every_mode
@pytest.mark.parametrize("added", [[TYPED], [INVENTED, TYPED]], ids=["plain client", "Agent Chat UI"])
async def test_the_call_is_closed_and_does_not_run(mode, added):
    _, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    assert "__interrupt__" in await run(mode, compiled, PAY)
    state = await run(mode, compiled, {"messages": added})
    assert "__interrupt__" not in state
    asked, calling, closed, typed, said = state["messages"]
    assert [message.type for message in (asked, calling, closed, typed, said)] == ["human", "ai", "tool", "human", "ai"]
    assert (closed.text, closed.status, closed.tool_call_id) == (NOT_DECIDED, "error", "c1")
    assert bank.transfers == []


@every_mode
@pytest.mark.parametrize("wrong", ["approve", True, {"type": "approve"}, {"decisions": "approve"}, []])
async def test_after_a_wrong_resume_the_person_is_asked_again(mode, wrong):
    _, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    (again,) = (await run(mode, compiled, Command(resume=wrong)))["__interrupt__"]
    assert again.value["action_requests"][0]["description"].startswith("**Your last reply could not be used: ")
    await run(mode, compiled, Command(resume={"decisions": [{"type": "approve"}]}))
    assert bank.transfers == [("Ann", 10.0)]


def test_a_conversation_in_which_all_calls_have_replies_stays_as_it_is():
    done = [HumanMessage("Pay."), says(call()), ToolMessage("sent", tool_call_id="c1"), HumanMessage("Again.")]
    assert close_calls(done, {"transfer_money"}) is None
    assert close_calls([HumanMessage("Pay."), says(call())], {"transfer_money"}) is None  # not the user's turn yet
    assert close_calls([], {"transfer_money"}) is None


def test_each_call_gets_its_own_reply_where_a_provider_expects_it():
    calls = says(call(), call("balance", id="c2"))
    answered = ToolMessage("the balance is 100", tool_call_id="c2")
    remove, *closed = close_calls([calls, answered, HumanMessage("approve")], {"transfer_money"})["messages"]
    assert remove.type == "remove"
    assert [(one.type, getattr(one, "tool_call_id", None)) for one in closed] == [
        ("ai", None),
        ("tool", "c1"),
        ("tool", "c2"),
        ("human", None),
    ]


def test_what_a_chat_interface_says_of_other_tools_is_kept():
    other = ToolMessage("Handled.", tool_call_id="c1", name="balance", id="do-not-render-1")
    messages = [AIMessage("", tool_calls=[call("balance")]), other, HumanMessage("And?")]
    assert close_calls(messages, {"transfer_money"}) is None
