"""200 questions at once on one compiled graph, whose agents take 50 ms each and fail in a tenth of the cases."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.concurrency import NAMES, QUESTIONS, ask_all, coe_graph, fails
from tests.graph.groups import decide, saying


@pytest.mark.slow
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


def in_a_process_of_its_own(code):
    """Returns what the code prints last. What other tests left in the memory of this process is walked through by each
    full garbage collection, which takes as long then as the empty graph itself, and falls more often into ours.
    """
    preparation = "import asyncio, statistics, sys; sys.path.insert(0, 'benchmarks')"
    command = [sys.executable, "-c", f"{preparation}\n{code}"]
    return json.loads(subprocess.check_output(command, cwd=Path(__file__).parents[2], text=True).splitlines()[-1])


@pytest.mark.slow
def test_it_takes_less_than_three_times_an_empty_graph():
    code = "import json; from concurrency import costs; print(json.dumps(costs(saved=False, repeats=3)))"
    ratios = {clock: ratio for clock, (_, _, ratio) in in_a_process_of_its_own(code).items()}
    assert ratios["wall"] < 10  # it would be more if agents waited for one another
    assert ratios["cpu"] < 3


def test_an_agent_that_answers_is_not_searched_for_secrets():
    class Watched(dict):
        def items(self):
            raise AssertionError("searched: this took longer than the rest of a run")

    agents = saying("Paris", "Paris")
    agents[0].options = Watched(api_key="sk-0123456789")
    assert decide(*agents)["answer"] == "Paris"
