"""200 questions at once on one compiled graph, whose agents take 50 ms each and fail in a tenth of the cases."""

import asyncio
import re

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.concurrency import NAMES, QUESTIONS, ask_all, coe_graph, costs, fails


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["plain", "saved"])
def test_each_question_has_a_decision_of_its_own_responses_alone(checkpointer):
    results = asyncio.run(ask_all(coe_graph().compile(checkpointer=checkpointer)))
    assert len(results) == len(QUESTIONS) == 200
    for question, result in zip(QUESTIONS, results, strict=True):
        decision = result["decision"]
        failed = [name for name in NAMES if fails(name, question)]
        assert sorted(decision["failed_agents"]) == failed
        said = [response for response in result["responses"] if response["error"] is None]
        assert len(said) == 5 * (3 - len(failed))
        # all that was said or went wrong names this question and no other
        assert {re.search(r"question \d+", row["text"] or row["error"])[0] for row in result["responses"]} == {question}
        if len(failed) < 2:
            assert (decision["action"], decision["answer"]) == ("answer", question)
        else:
            assert (decision["action"], decision["answer"]) == ("abstain", None)


def test_a_tenth_of_the_calls_fail():
    calls = [fails(name, question) for name in NAMES for question in QUESTIONS]
    assert 0.08 < sum(calls) / len(calls) < 0.12


def test_it_takes_less_than_three_times_an_empty_graph():
    _, _, ratio = costs(saved=False, repeats=5)["wall"]
    assert ratio < 3
