"""Owns what every `Agent` must do, as suites of tests: one for its responses, one for its failures."""

import asyncio
import copy
import json
import math
from typing import Any

from coe_agents.testing.expectations import expect
from coe_agents.types import Agent, AgentReply, AgentRequest, Response

_FIELDS = set(Response.__annotations__)


def _request(round: int = 0) -> AgentRequest:
    question = "What is the capital of France?"
    return AgentRequest(question=question, messages=[{"role": "user", "content": question}], round=round)


class AgentContract:
    """Tests of an `Agent` that can answer. Derive from it, and override `create_agent`.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> class TestMine(AgentContract):
        ...     def create_agent(self):
        ...         return ScriptedAgent("mine", ["Paris", "It is Paris."])
        >>> TestMine().test_responses_are_complete_and_numbered()
    """

    def create_agent(self) -> Agent:
        """Returns the agent to test; called once for each test."""
        raise NotImplementedError('override "create_agent" and return your agent')

    def test_it_is_an_agent(self) -> None:
        agent = self.create_agent()
        expect(
            isinstance(agent, Agent),
            f'{type(agent).__name__} must have "name", "weight", "sample(...)", "asample(...)"',
        )
        name: Any = agent.name
        weight = agent.weight
        expect(isinstance(name, str) and name.strip(), f'"name" must be a text, not empty; it is {name!r}')
        expect(0 <= weight < math.inf, f'"weight" must be a number of at least 0; it is {weight!r}')

    def test_responses_are_complete_and_numbered(self) -> None:
        for asked in (0, 1):
            agent = self.create_agent()
            _check(agent, agent.sample(_request(asked)), round=asked)

    def test_the_async_form_does_the_same(self) -> None:
        async def two_at_once(agent: Agent) -> list[AgentReply]:
            return list(await asyncio.gather(agent.asample(_request()), agent.asample(_request())))

        agent = self.create_agent()
        for reply in asyncio.run(two_at_once(agent)):
            _check(agent, reply, round=0)

    def test_a_reply_is_plain_data(self) -> None:
        reply = self.create_agent().sample(_request())
        try:
            returned = json.loads(json.dumps(reply, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"a reply must be plain data, which fits any checkpointer: {error}") from error
        expect(returned == reply, f"a reply must hold dicts, lists, texts and numbers only; got {reply}")

    def test_the_request_is_not_changed(self) -> None:
        request = _request()
        given = copy.deepcopy(request)
        self.create_agent().sample(given)
        expect(given == request, f'"sample" must not change the request; it is {given} now')

    def test_wishes_may_come_along(self) -> None:
        agent = self.create_agent()
        overriding: AgentRequest = {**_request(1), "n_samples": 2, "temperature": 0.5, "timeout": 60.0}
        _check(agent, agent.sample(overriding), round=1)

    def test_a_config_may_come_along(self) -> None:
        agent = self.create_agent()
        config = {"callbacks": [], "tags": ["contract"], "metadata": {"suite": "coe"}, "configurable": {"x": 1}}
        _check(agent, agent.sample(_request(), config), round=0)
        _check(agent, asyncio.run(self.create_agent().asample(_request(), config)), round=0)


class FailingAgentContract:
    """Tests of an `Agent` that cannot answer: it raises, so that an error never passes for an answer.

    Example:
        >>> from coe_agents.testing import ScriptedAgent
        >>> class TestMine(FailingAgentContract):
        ...     def create_failing_agent(self):
        ...         return ScriptedAgent("mine", ConnectionError("refused"))
        >>> TestMine().test_a_failure_raises()
    """

    def create_failing_agent(self) -> Agent:
        """Returns an agent whose model cannot be reached, say; called once for each test."""
        raise NotImplementedError('override "create_failing_agent" and return an agent that cannot answer')

    def test_a_failure_raises(self) -> None:
        agent = self.create_failing_agent()
        try:
            reply = agent.sample(_request())
        except Exception:
            return
        raise AssertionError(f'"sample" must raise where the agent cannot answer; it returned {reply}')

    def test_a_failure_raises_in_the_async_form(self) -> None:
        agent = self.create_failing_agent()
        try:
            reply = asyncio.run(agent.asample(_request()))
        except Exception:
            return
        raise AssertionError(f'"asample" must raise where the agent cannot answer; it returned {reply}')


def _check(agent: Agent, reply: AgentReply, *, round: int) -> None:
    """Raises `AssertionError` unless the reply is whole and of that agent and round."""
    responses = reply["responses"]
    expect(responses, "an agent must give at least one response, or raise")
    indices = [response["index"] for response in responses]
    expect(indices == list(range(len(indices))), f'"index" must count from 0; got {indices}')
    for response in responses:
        expect(set(response) == _FIELDS, f"a response must have the fields {sorted(_FIELDS)}; got {sorted(response)}")
        expect(response["agent"] == agent.name, f'"agent" must be {agent.name!r}; got {response["agent"]!r}')
        expect(response["round"] == round, f'"round" must be that of the request, {round}; got {response["round"]}')
        expect(isinstance(response["text"], str), f'"text" must be a text; got {response["text"]!r}')
        expect(response["error"] is None, f'an agent raises its errors; "error" is {response["error"]!r}')
        logprob, n_tokens = response["logprob"], response["n_tokens"]
        expect((logprob is None) == (n_tokens is None), f'"logprob" is {logprob} where "n_tokens" is {n_tokens}')
        if logprob is not None and n_tokens is not None:
            fits = math.isfinite(logprob) and logprob <= 1e-6 and n_tokens >= 1
            expect(fits, f'"logprob" must be at most 0, of at least one token; got {logprob} of {n_tokens}')
    spent = reply["usage"]
    expect(set(spent) == {"input_tokens", "output_tokens"}, f'"usage" must count input and output tokens; got {spent}')
    expect(
        all(isinstance(count, int) and count >= 0 for count in spent.values()), f"tokens must be counts; got {spent}"
    )
