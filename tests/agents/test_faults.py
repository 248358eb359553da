"""What happens when a model fails: the real ChatOpenAI in a whole graph, against servers that fail on loopback.

The table of docs/guides/failures.md says what is tested here.
"""

import asyncio
import json
import math
import re
import time

import pytest
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent
from coe_agents.agents.requests import send
from coe_agents.errors import AgentError, ContextOverflowError, InvalidReplyError, RateLimitError
from tests.doubles import REQUEST, CountingModel
from tests.faults import KEY, failing
from tests.graph.groups import graph
from tests.servers import Served, running

LONGEST = 30.0
"""For a slow machine; without a deadline these servers would hold a client for two minutes or more."""

# kind: what the decision says of the agent, part of its hint, and how many requests it took with one retry
FAILURES = {
    "refused": ("AgentConnectionError", "Check that a server listens at http://127.0.0.1", 0),
    "reset in mid-answer": (
        "AgentConnectionError",
        "Check that a server listens at http://127.0.0.1",
        2,
    ),
    "time-out": (
        "AgentTimeoutError",
        "Lower `max_tokens` or `n_samples` (`--max-tokens`, `--n`)",
        2,
    ),
    "401": ("AuthenticationError", "Check the key", 1),
    "404": ("ModelNotFoundError", "Check the model's name", 1),
    "429 with Retry-After": (
        "RateLimitError",
        "Lower `max_concurrency`",
        1,
    ),  # a minute is past the deadline
    "429 without": ("RateLimitError", "Lower `max_concurrency`", 2),
    "500": ("ServerError", "See what the server at http://127.0.0.1", 2),
    "invalid JSON": ("InvalidReplyError", "speaks the protocol", 2),
    "empty choices": ("InvalidReplyError", "gave no response", 2),
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(send, "_FIRST_WAIT", 0.02)


def agent(server: Served, name: str = "a", **options) -> ModelAgent:
    chat = ChatOpenAI(model="served", base_url=server.url, api_key=KEY)
    # only a server that never answers is waited for until the end, so the others may take long on a slow machine
    attempt = 0.2 if getattr(server, "fault", "") == "time-out" else LONGEST
    chosen = {
        "n_samples": 3,
        "timeout": LONGEST,
        "request_timeout": attempt,
        "retries": 1,
        "seed": 1,
    }
    return ModelAgent(name, chat, **{**chosen, **options})


def decided(agents, form: str) -> dict:
    """Asks the group and checks what holds of every failure: no hang, and a decision that adds up."""
    compiled = graph(*agents).compile()
    given = {"question": "Capital of France?"}
    start = time.monotonic()
    result = compiled.invoke(given) if form == "sync" else asyncio.run(compiled.ainvoke(given))
    assert time.monotonic() - start < LONGEST
    decision = result["decision"]
    assert set(decision["failed_agents"]).isdisjoint(decision["agents"])
    assert {r["agent"] for r in result["responses"] if r["error"]} == set(decision["failed_agents"])
    assert all(r["text"] == "" for r in result["responses"] if r["error"])
    return decision


@pytest.mark.parametrize("fault", FAILURES)
def test_one_agent_fails_and_the_others_answer_stands(fault):
    kind, _, n_requests = FAILURES[fault]
    with failing(fault) as broken, running(Served()) as sound:
        decision = decided([agent(broken, "a"), agent(sound, "b"), agent(sound, "c")], "async")
    assert decision["action"] == "answer"
    assert decision["answer"] == "Paris"
    assert set(decision["failed_agents"]) == {"a"}
    reason = decision["failed_agents"]["a"]
    assert reason.startswith(f"{kind}: ")
    assert len(reason) < 700
    # on a slow machine an attempt may time out before its server has seen it
    assert len(broken.requests) == n_requests or (
        fault == "time-out" and len(broken.requests) < n_requests
    )


@pytest.mark.parametrize("fault", FAILURES)
def test_a_failure_says_what_to_do(fault):
    hint = FAILURES[fault][1]
    with failing(fault) as broken, pytest.raises(AgentError, match=re.escape(hint)):
        agent(broken, retries=0).sample(REQUEST)


@pytest.mark.parametrize("fault", ["missing log-probabilities", "NaN log-probability"])
def test_an_agent_that_lacks_a_log_probability_counts_by_frequency_and_says_so(fault):
    with failing(fault) as broken, running(Served()) as sound:
        agents = [agent(broken if name == "a" else sound, name) for name in "abc"]
        decision = decided(agents, "sync")
    assert decision["action"] == "answer"
    assert decision["failed_agents"] == {}
    for name, said in decision["agents"].items():
        assert said["weighting"] == ("frequency" if name == "a" else "probability")
        assert [record["logprobs_missing"] for record in said["sampling"]] == [name == "a"]
    assert json.dumps(decision, allow_nan=False)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_server_that_drips_is_given_up_at_the_deadline(form):
    with failing("drip") as broken, running(Served()) as sound:
        agents = [
            agent(broken, "a", request_timeout=None, timeout=0.3),
            agent(sound, "b"),
            agent(sound, "c"),
        ]
        decision = decided(agents, form)
    assert decision["action"] == "answer"
    assert decision["failed_agents"]["a"].startswith("AgentTimeoutError: ")


def test_a_failure_that_passes_is_retried_and_waited_for_as_long_as_the_server_asks():
    for fault, at_least in (
        ("500", 0.0),
        ("429 soon", 0.4),
        ("reset in mid-answer", 0.0),
        ("empty choices", 0.0),
    ):
        with failing(fault, times=1) as shaky:
            start = time.monotonic()
            reply = agent(shaky).sample(REQUEST)
            assert time.monotonic() - start >= at_least
        assert len(reply["responses"]) == 3
        assert len(shaky.requests) == 2


def test_retries_without_end_outlast_more_failures_than_the_wait_can_be_doubled(monkeypatch):
    class Recovering(CountingModel):
        def _generate(self, *arguments, **options):
            if len(self.calls) < 1100:  # 2.0 ** 1024 is beyond all floats
                self.calls.append({})
                raise ConnectionError("lost")
            return super()._generate(*arguments, **options)

    monkeypatch.setattr(send, "_LONGEST_WAIT", 0.0)
    lasting = ModelAgent("a", Recovering(), n_samples=1, retries=math.inf, timeout=None)
    assert len(lasting.sample(REQUEST)["responses"]) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (
            "context",
            ContextOverflowError,
            "maximum context length is 64 tokens.*Shorten the conversation",
        ),
        ("no credit", RateLimitError, "no credit left"),
        ("a web page", InvalidReplyError, "Unexpected response type"),
        ("null choices", InvalidReplyError, "null value"),
        ("an error with 200", AgentError, "overloaded"),
    ],
)
def test_other_failures_are_named(fault, kind, said):
    with failing(fault) as broken, pytest.raises(kind, match=said):
        agent(broken, retries=0).sample(REQUEST)
