import asyncio
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.checkpoint.memory import InMemorySaver

from coe_agents import ModelAgent
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph import state
from coe_agents.graph.context import CallersLimits
from coe_agents.policy import Decision
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.types import create_usage
from tests.doubles import ScriptedAgent
from tests.graph.groups import THREAD, Deciding, ask
from tests.graph.nodes.test_another_round import graph, three


def test_the_token_budget_names_itself_and_keeps_the_policys_reason():
    # a round costs 3 agents x (3 + 1) tokens
    decision = ask(graph(*three(), max_rounds=9, token_budget=24))["decision"]
    assert decision["action"] == "abstain"
    assert decision["n_rounds"] == 2
    assert decision["cause"] == "budget"
    assert "; conflict, " in decision["reason"]
    assert decision["reason"].endswith("; no tokens are left: 24 are used of a token_budget of 24")
    late = ask(graph(*three(), max_rounds=9, token_budget=35))["decision"]
    assert late["n_rounds"] == 2
    assert (
        "; too few tokens are left: 11 are left of a token_budget of 35, and a response of each"
        in late["reason"]
    )
    assert late["reason"].endswith(" agent takes about 12")
    assert ask(graph(*three(), max_rounds=9, token_budget=36))["decision"]["n_rounds"] == 3


def test_the_tokens_of_a_proposal_that_cannot_be_read_are_used():
    unreadable = invalid_tool_call(name="pay", args="{", id="1", error="no JSON")
    used = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    reply = AIMessage("", invalid_tool_calls=[unreadable], usage_metadata=used)
    agent = ModelAgent("a", ScriptedDriver(script=lambda _: reply), n_samples=1, retries=0)
    tool = {"name": "pay", "parameters": {"properties": {"to": {"type": "string"}}}}
    decision = ask(graph(agent, tools=[tool], min_agents=1))["decision"]
    assert decision["tokens"] == {"a": {"input_tokens": 5, "output_tokens": 1}}


def test_a_round_is_made_smaller_to_fit_what_is_left_of_the_budget_or_of_the_callers():
    agents = [ScriptedAgent(name, ["Paris", "Lyon"], ["Paris"] * 3) for name in "ab"]
    policy = Deciding(Decision("another_round"), otherwise="escalate")
    # two responses of each agent take 2 x (3 + 2) tokens: 15 are left, and twice as many responses would take 20
    asked = graph(
        *agents, policy=policy, max_rounds=9, token_budget=25, strategies={"ambiguous": "resample"}
    )
    decision = ask(asked)["decision"]
    assert [request.get("n_samples") for request in agents[0].requests] == [None, 3]
    assert (
        sum(used["input_tokens"] + used["output_tokens"] for used in decision["tokens"].values())
        <= 25
    )
    assert [measurement.run.tokens_left for *_, measurement in policy.seen] == [15, 3]
    assert decision["action"] == "escalate"
    assert decision["n_rounds"] == 2
    agents = [ScriptedAgent(name, ["Paris", "Lyon"], ["Paris"] * 4) for name in "ab"]
    again = Deciding(Decision("another_round"))
    asked = graph(
        *agents, policy=again, max_rounds=2, strategies={"ambiguous": "resample"}
    ).compile()
    asked.invoke({"question": "Q?"}, context=CallersLimits(token_budget=25))
    assert [request.get("n_samples") for request in agents[0].requests] == [None, 3]


@pytest.fixture
def clock(monkeypatch):
    """The clocks of the rounds, which go by nothing but what a test adds; `set` is how far off the wall clock is."""
    clock = SimpleNamespace(now=1e9, set=0.0)
    clocks = SimpleNamespace(time=lambda: clock.now + clock.set, monotonic=lambda: clock.now)
    monkeypatch.setattr(state, "time", clocks)
    state._begun.cache_clear()
    return clock


class Slow(NormalizedMatch):
    def __init__(self, clock):
        self.clock = clock

    def cluster(self, responses, questions):
        self.clock.now += 10
        return super().cluster(responses, questions)


def slow_graph(clock, *agents, deadline):
    return graph(*agents, clusterer=Slow(clock), max_rounds=9, deadline=deadline)


def test_the_deadline_ends_the_rounds_and_time_between_a_decision_and_the_next_round_does_not_count(
    clock,
):
    decision = ask(slow_graph(clock, *three(), deadline=15))["decision"]
    assert decision["action"] == "abstain"
    assert decision["n_rounds"] == 2
    assert decision["cause"] == "deadline"
    assert "; conflict, " in decision["reason"]
    assert decision["reason"].endswith("; no time is left: 20.00 s are used of a deadline of 15 s")
    agents = three(c=["Paris"])
    pausing = {"checkpointer": InMemorySaver(), "interrupt_before": ["another_round"]}
    compiled = slow_graph(clock, *agents, deadline=15).compile(**pausing)
    compiled.invoke({"question": "Q?"}, THREAD)
    clock.now += 1_000
    assert compiled.invoke(None, THREAD)["decision"]["action"] == "answer"
    assert agents[0].requests[1]["timeout"] == 5


@pytest.mark.parametrize(("back", "first"), [(0, 100), (3600, 0)])
def test_in_another_process_time_goes_on_from_what_the_wall_clock_says_of_the_past(
    clock, back, first
):
    started = state.begin_round()["started"]
    state._begun.cache_clear()
    clock.now = clock.now + 100
    clock.set = -back
    assert state.seconds_since(started) == first
    clock.now = clock.now + 10
    clock.set = -1e6
    assert state.seconds_since(started) == first + 10


async def test_the_deadline_cuts_off_an_agent_that_does_not_mind_it(clock):
    class Stuck(ScriptedAgent):
        async def asample(self, request, config=None):
            if request["round"] == 1:
                try:
                    await asyncio.sleep(60)
                finally:
                    clock.now += 10
            return await super().asample(request, config)

    compiled = graph(Stuck("a", ["Paris"]), ScriptedAgent("b", ["Lyon"]), deadline=0.1).compile()
    started = time.monotonic()
    decision = (await compiled.ainvoke({"question": "Q?"}))["decision"]
    assert time.monotonic() - started < 50
    assert list(decision["failed_agents"]) == ["a"]
    assert decision["failed_agents"]["a"].startswith("AgentTimeoutError")
    assert decision["cause"] == "deadline"


def test_no_retry_begins_after_the_deadline(clock):
    class Failing(ScriptedAgent):
        def sample(self, request, config=None):
            super().sample(request, config)
            clock.now += 10
            raise ConnectionError("lost")

    failing = Failing("a", ["Paris"])
    decision = ask(graph(failing, *three()[1:], retries=3, deadline=15, max_rounds=1))["decision"]
    assert [request["timeout"] for request in failing.requests] == [15, 5]
    assert decision["failed_agents"]["a"].startswith("AgentTimeoutError")


@given(count=st.integers() | st.floats() | st.booleans() | st.none() | st.text())
def test_a_count_of_tokens_is_a_whole_number_or_not_known(count):
    usage = create_usage(count, 1)
    assert usage["input_tokens"] is None or usage == {"input_tokens": count, "output_tokens": 1}
    assert (usage["input_tokens"] is not None) == (type(count) is int and 0 <= count <= 2**53)


def test_an_agent_of_ones_own_that_counts_below_zero_extends_no_budget():
    class Minus(ScriptedAgent):
        def sample(self, request, config=None):
            return {
                **super().sample(request, config),
                "usage": {"input_tokens": -(10**6), "output_tokens": True},
            }

    decision = ask(graph(Minus("a", ["Paris"]), *three()[1:], max_rounds=6, token_budget=99))[
        "decision"
    ]
    assert decision["n_rounds"] == 1
    assert decision["tokens"]["a"] == {"input_tokens": None, "output_tokens": None}


async def test_an_agents_own_timeout_is_its_own():
    agents = [ScriptedAgent("a", TimeoutError("mine")), ScriptedAgent("b", ["Lyon"])]
    decision = (await graph(*agents, deadline=60).compile().ainvoke({"question": "Q?"}))["decision"]
    assert decision["failed_agents"] == {"a": "TimeoutError: mine"}
