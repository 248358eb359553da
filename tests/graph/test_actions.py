"""The graph over agents that propose tool calls."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import GroupDecision, ModelAgent, SupportPolicy, ThresholdPolicy, create_coe_graph
from coe_agents.actions import ActionMatch
from coe_agents.testing import ScriptedAgent
from tests.doubles import ProposingModel

PAY = {"name": "pay", "parameters": {"properties": {"to": {"type": "string"}, "amount": {"type": "number"}}}}


def pay(amount, to="Ann"):
    return [{"name": "pay", "args": {"to": to, "amount": amount}}]


def run(*proposals, policy=None, **options):
    agents = [ScriptedAgent(name, [calls]) for name, calls in zip("abcde", proposals, strict=False)]
    graph = create_coe_graph(agents, clusterer=ActionMatch(), policy=policy or SupportPolicy(0.5), **options)
    result = graph.compile(checkpointer=InMemorySaver()).invoke(
        {"question": "Pay Ann 5"}, {"configurable": {"thread_id": "1"}}
    )
    return result["decision"], result["messages"][-1]


def test_agreed_calls_are_the_decision_and_a_message_that_a_tool_node_can_run():
    decision, message = run(pay(5), pay(5.0, "ann"), pay(6))
    assert (decision["action"], decision["answer_kind"]) == ("answer", "call")
    (call,) = decision["calls"]
    assert (call["name"], call["args"]["amount"]) == ("pay", 5)
    assert [{key: made[key] for key in ("name", "args", "id")} for made in message.tool_calls] == [call]
    assert decision["contested"]["candidates"] == {
        "pay.amount": [{"value": 5, "agents": ["a", "b"]}, {"value": 6, "agents": ["c"]}]
    }
    assert 'two of three agents propose "pay(amount=5' in decision["reason"]


def test_contested_calls_are_not_in_the_decision():
    decision, message = run(pay(5), pay(6), pay(7))
    assert (decision["action"], decision["calls"], message.tool_calls) == ("abstain", None, [])
    assert list(decision["contested"]["arguments"]) == ["amount"]


def test_agreeing_to_call_nothing_answers_with_a_text():
    agents = [ModelAgent(name, ProposingModel(script=[AIMessage("Done.")]), n_samples=1, tools=[PAY]) for name in "ab"]
    graph = create_coe_graph(agents, clusterer=ActionMatch([PAY]), policy=ThresholdPolicy(0.1)).compile()
    decision = graph.invoke({"question": "Thanks!"})["decision"]
    assert (decision["action"], decision["answer_kind"], decision["answer"]) == ("answer", "no_call", "Done.")
    assert decision["calls"] == []


def test_an_agent_with_some_invalid_proposals_has_not_failed():
    broken = AIMessage("", invalid_tool_calls=[{"name": "pay", "args": "{", "id": "1", "error": "bad"}])
    good = AIMessage("", tool_calls=[{"name": "pay", "args": {"to": "Ann", "amount": 5}, "id": "1"}])
    agents = [
        ModelAgent("a", ProposingModel(script=[good, broken]), n_samples=2, tools=[PAY]),
        ModelAgent("b", ProposingModel(script=[good]), n_samples=1, tools=[PAY]),
        ModelAgent("c", ProposingModel(script=[broken]), n_samples=1, tools=[PAY]),
    ]
    graph = create_coe_graph(agents, clusterer=ActionMatch([PAY]), policy=SupportPolicy(1.0)).compile()
    result = graph.invoke({"question": "Pay Ann 5"})
    decision = result["decision"]
    assert (decision["action"], list(decision["failed_agents"])) == ("answer", ["c"])
    assert decision["agents"]["a"]["sampling"][0]["n_invalid_calls"] == 1
    assert [row["error"] is None for row in result["responses"]] == [True, True, False, False]


@pytest.mark.parametrize("order", [(5, 5, 6), (6, 5, 5)])
def test_the_typed_view_has_the_calls(order):
    agents = [ScriptedAgent(name, [pay(amount)]) for name, amount in zip("abc", order, strict=True)]
    graph = create_coe_graph(agents, clusterer=ActionMatch(), policy=SupportPolicy(0.5)).compile()
    decision = GroupDecision.from_state(graph.invoke({"question": "Pay Ann 5"}))
    assert decision.calls[0]["args"] == {"to": "Ann", "amount": 5}
    assert decision.contested["candidates"]
