import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import AskPerson, ThresholdPolicy
from coe_agents.graph import create_sequential_graph
from coe_agents.testing import ScriptedAgent
from coe_agents.testing import create_response as response
from coe_agents.types import AgentReply, Usage
from tests.graph.groups import THREAD, graph, saying


class Table(ScriptedAgent):
    """Answers each question as a table says."""

    def __init__(self, name, table):
        super().__init__(name)
        self.table = table

    def sample(self, request, config=None):
        self.requests.append(request)
        rows = []
        for index, text in enumerate(self.table[request["question"]]):
            row = response(self.name, text, round=request["round"], index=index)
            rows.append(row)
        return AgentReply(responses=rows, usage=Usage(input_tokens=1, output_tokens=1))


def next_question(question, answer):
    return None if answer == "end" else answer


def chain(first, second, **options):
    """Two agents; the next question is the answer."""
    agents = [Table("a", first), Table("b", second)]
    gate = graph(*agents, policy=ThresholdPolicy(0.6)).compile()
    chained = create_sequential_graph(gate, next_question=next_question, **options)
    return agents, chained


def test_each_answer_makes_the_next_question_a_gate_ends_the_chain_and_the_numbers_of_the_steps_add_up():
    table = {"Q": ["one"], "one": ["two"], "two": ["x"], "x": ["never"]}
    agents, graph = chain(table, {**table, "two": ["y"]})
    compiled = graph.compile()
    result = compiled.invoke({"question": "Q"})
    other = asyncio.run(compiled.ainvoke({"question": "Q"}))
    assert result["steps"] == other["steps"]
    first, second, third = result["steps"]
    assert first["question"] == "Q"
    assert first["answer"] == "one"
    assert second["question"] == "one"
    assert second["answer"] == "two"
    assert third["question"] == "two"
    assert third["answer"] is None
    assert result["ended"] == "withheld"
    assert result["decision"]["action"] == "abstain"
    for agent in agents:
        assert "x" not in [request["question"] for request in agent.requests]

    # each torn alike: aleatoric log 2 would be withheld; 3 to 1: H = 0.5623 nats; then sure of two answers: log 2
    torn = ["one", "one", "one", "two"]
    _, graph = chain({"Q": torn, "one": ["x"]}, {"Q": torn, "one": ["y"]})
    result = graph.compile().invoke({"question": "Q"})
    first, second = result["steps"]
    assert first["aleatoric"] == pytest.approx(0.5623, abs=1e-4)
    assert first["epistemic"] == pytest.approx(0, abs=1e-9)
    assert second["aleatoric"] == 0.0
    assert second["epistemic"] == pytest.approx(0.6931, abs=1e-4)
    assert result["aleatoric"] == pytest.approx(0.5623, abs=1e-4)
    assert result["epistemic"] == pytest.approx(0.6931, abs=1e-4)
    assert result["coe"] == pytest.approx(result["aleatoric"] + result["epistemic"])


def test_a_chain_without_end_is_bounded_and_a_conversation_goes_in_and_comes_out():
    _, endless = chain({"Q": ["Q"]}, {"Q": ["Q"]}, max_steps=3)
    result = endless.compile().invoke({"question": "Q"})
    assert len(result["steps"]) == 3
    assert result["ended"] == "max_steps"

    gate = graph(*saying("Lagos", "Lagos")).compile()
    chained = create_sequential_graph(
        gate, next_question=lambda _, answer: f"Where is {answer}?", max_steps=2
    )
    compiled = chained.compile()
    result = compiled.invoke({"messages": [("system", "Be brief."), ("user", "Which?")]})
    texts = [(message.type, message.text) for message in result["messages"]]
    assert texts == [
        ("system", "Be brief."),
        ("human", "Which?"),
        ("ai", "1. Which? Lagos\n2. Where is Lagos? Lagos"),
    ]
    with pytest.raises(ValueError, match="the input must hold"):
        compiled.invoke({"messages": [("ai", "Hello.")]})


def test_a_person_behind_a_gate_goes_on_with_the_chain():
    first = Table("a", {"Q": ["x"], "two": ["end"]})
    second = Table("b", {"Q": ["y"], "two": ["end"]})
    policy = ThresholdPolicy(0.6, otherwise="escalate")
    gate = graph(first, second, policy=policy, escalation=AskPerson()).compile()
    chained = create_sequential_graph(gate, next_question=next_question)
    compiled = chained.compile(checkpointer=InMemorySaver())
    assert compiled.invoke({"question": "Q"}, THREAD)["__interrupt__"]

    answer = {"type": "answer", "answer": "two"}
    result = compiled.invoke(Command(resume=answer), THREAD)
    assert [step["answer"] for step in result["steps"]] == ["two", "end"]
    # nobody is asked twice
    assert [request["question"] for request in first.requests] == ["Q", "two"]
