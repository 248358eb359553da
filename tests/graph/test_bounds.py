import asyncio
import time

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import create_coe_graph
from coe_agents.clustering import NormalizedMatch
from tests.doubles import ScriptedAgent
from tests.graph.test_graph import both
from tests.graph.test_rounds import AGAIN, ask, graph, three


def test_the_token_budget_names_itself_and_keeps_the_policys_reason():
    # a round costs 3 agents x (3 + 1) tokens
    decision = both(graph(*three(), max_rounds=9, token_budget=24), {"question": "Q?"})["decision"]
    assert (decision["action"], decision["n_rounds"]) == ("abstain", 2)
    assert decision["reason"].startswith("conflict: the agents are sure of different answers")
    assert decision["reason"].endswith("; no tokens are left: 24 are used of a token_budget of 24")
    assert ask(graph(*three(), max_rounds=9, token_budget=25))["decision"]["n_rounds"] == 3


def test_a_budget_does_not_take_back_an_answer():
    assert ask(graph(*three(a=["Paris"], c=["Paris"]), token_budget=13))["decision"]["action"] == "answer"


class Slow(ScriptedAgent):
    """Takes its time and minds nobody's."""

    def sample(self, request, config=None):
        time.sleep(0.2)
        return super().sample(request, config)

    async def asample(self, request, config=None):
        await asyncio.sleep(0.2 if request["round"] == 0 else 30)
        return super().sample(request, config)


def test_the_deadline_ends_the_rounds_and_names_itself():
    agents = [Slow("a", ["Paris"]), ScriptedAgent("b", ["Lyon"])]
    decision = ask(graph(*agents, max_rounds=9, deadline=0.3))["decision"]
    assert (decision["action"], decision["n_rounds"]) == ("abstain", 2)
    assert decision["reason"].startswith("conflict: ")
    assert "; no time is left: 0.4" in decision["reason"]
    assert decision["reason"].endswith("s are used of a deadline of 0.3 s")


async def test_the_deadline_cuts_off_an_agent_that_does_not_mind_it():
    agents = [Slow("a", ["Paris"]), ScriptedAgent("b", ["Lyon"])]
    compiled = graph(*agents, max_rounds=9, deadline=0.4).compile()
    started = time.monotonic()
    decision = (await compiled.ainvoke({"question": "Q?"}))["decision"]
    assert time.monotonic() - started < 10
    assert decision["failed_agents"] == {
        "a": "AgentTimeoutError: the deadline of the question has passed. Raise `deadline` of the graph"
    }
    assert decision["reason"].startswith("1 of 2 agents answered and 2 must; missing: a; no time is left: ")


def test_agents_are_told_what_time_is_left():
    agents = [Slow("a", ["Paris"]), Slow("b", ["Lyon"])]
    ask(graph(*agents, deadline=60))
    first, second = (request["timeout"] for request in agents[0].requests)
    assert 59 < first <= 60
    assert first - second > 0.15  # the first round's time is gone
    unbounded = three()
    ask(graph(*unbounded))
    assert set(unbounded[0].requests[0]) == {"question", "messages", "round"}


def test_a_retry_has_the_time_that_is_left_and_none_after_the_deadline():
    class Flaky(Slow):
        def sample(self, request, config=None):
            super().sample(request, config)
            raise ConnectionError("lost")

    flaky = Flaky("a", ["Paris"])
    compiled = create_coe_graph(
        [flaky, *three()[1:]], clusterer=NormalizedMatch(), policy=AGAIN, retries=5, deadline=0.3
    )
    decision = ask(compiled)["decision"]
    assert len(flaky.requests) == 1  # 0.2 s of work and LangGraph's wait of 0.2 s
    assert decision["failed_agents"]["a"].startswith("AgentTimeoutError: the deadline")


def test_time_between_a_decision_and_the_next_round_does_not_count():
    agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon"], ["Paris"])]
    compiled = graph(*agents, deadline=0.5).compile(checkpointer=InMemorySaver(), interrupt_before=["another_round"])
    thread = {"configurable": {"thread_id": "1"}}
    compiled.invoke({"question": "Q?"}, thread)
    time.sleep(0.6)
    assert compiled.invoke(None, thread)["decision"]["action"] == "answer"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token_budget": 0}, '"token_budget" must be at least 1; 0 came'),
        ({"deadline": 0}, '"deadline" must be above 0 seconds; 0 came'),
        ({"deadline": float("nan")}, '"deadline" must be above 0 seconds'),
    ],
)
def test_bounds_that_cannot_be_kept_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        graph(*three(), **options)
