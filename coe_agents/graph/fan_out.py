"""Owns the requests to the agents: all of a round at once, or step by step under `AdaptiveSampling`.

Everything is derived from the responses in the state, so that a resumed run continues correctly.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langgraph.types import Send

from coe_agents.graph.context import RunSettings
from coe_agents.graph.round_state import agents_counted_as, graded_agents, measurement_of, new_responses, spent_of
from coe_agents.graph.state import AskedRequest, CoEState, SavedState
from coe_agents.policy.base import SettlingPolicy
from coe_agents.policy.measurement import forecast
from coe_agents.policy.settle import is_settled
from coe_agents.prompts import STRUCTURED
from coe_agents.rounds import AdaptiveSampling
from coe_agents.types import Agent


def fan_out(
    settings: RunSettings,
    first: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda name, overrides: overrides,
) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks the agents in parallel: all of them, unless a strategy named only some.

    `first` returns an agent's first request of a round, from its name and what the round asks of it.
    """

    def ask_all(state: CoEState) -> list[Send]:
        state = cast("CoEState", SavedState(state))
        now = settings.of(state)
        overrides = overrides_of(state, now)
        return to_sends(state, now, {name: first(name, own) for name, own in overrides.items()})

    return ask_all


def overrides_of(state: CoEState, settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Returns how the round's request to each agent differs from the usual one; agents not named are not asked."""
    n_samples = settings.bounds.n_samples
    usual = {} if n_samples is None else {"n_samples": n_samples}
    overrides = state["plan"]["overrides"]
    named = {name: {} for name in settings.agents} if overrides is None else overrides
    return {name: {**usual, **own} for name, own in named.items()}


def to_sends(state: CoEState, settings: RunSettings, overrides: Mapping[str, Mapping[str, Any]]) -> list[Send]:
    """Returns the requests of the round, with these changes for each agent."""
    turn, bounds = state["turn"], settings.bounds
    base = AskedRequest(
        question=turn["question"],
        messages=turn["conversation"],
        round=state["round"],
        state_version=turn["state_version"],
        asked_agents=list(overrides),
    )
    if turn["choices"] is not None:
        base["choices"] = turn["choices"]
    if turn["is_review"]:
        base["is_review"] = True
    if turn["tools"] is not None:
        base["tools"] = turn["tools"]
    if (schema := turn.get("answer_schema")) is not None:
        base["instruction"] = STRUCTURED.format(schema=json.dumps(schema))
    if turn.get("answers") is not None and settings.answers is not None and settings.answers.instruction:
        base["instruction"] = settings.answers.instruction
    if bounds.deadline is not None:
        base |= {"started": state["clock"]["started"], "seconds": bounds.deadline - state["clock"]["elapsed"]}
    return [Send(name, {**base, **own}) for name, own in overrides.items()]


class TopUps:
    """The requests of one graph under `AdaptiveSampling`."""

    def __init__(
        self,
        adaptive: AdaptiveSampling,
        agents: Sequence[Agent],
        settings: RunSettings,
        *,
        measuring: Mapping[str, Any],
    ) -> None:
        self._adaptive, self._settings = adaptive, settings
        self._may_settle = isinstance(settings.policy, SettlingPolicy)
        self._own = {agent.name: _own(agent, adaptive.max_samples) for agent in agents}
        self._measuring = measuring

    def first(self, name: str, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
        planned = self._planned(name, overrides)
        if planned is None:
            return overrides
        n_samples = planned if not self._may_settle else self._adaptive.n_samples(0, left=planned)
        return {**overrides, "n_samples": n_samples}

    def more(self, state: CoEState) -> list[Send] | str:
        """Routes after a measurement: to the agents that have responses left, or to the gate."""
        state = cast("CoEState", SavedState(state))
        now = self._settings.of(state)
        given, overrides = self._given(state), overrides_of(state, now)
        left, graded = dict[str, int](), graded_agents(state)  # a probability that was read needs no more responses
        for name in (overrides.keys() & given.keys()) - agents_counted_as(state, "once"):
            planned = self._planned(name, overrides[name])
            if planned is not None and given[name] < planned and name not in graded:
                left[name] = planned - given[name]
        spent = spent_of(state)
        answering = {row["agent"] for row in state["responses"] if row["error"] is None}
        may_ask = (
            state["measured"] is not None and len(answering) >= now.quorum and not now.bounds.end_of_requests(spent)
        )
        if not left or not may_ask or self._settled(state, left, now):
            return "enough"
        wanted = {name: self._adaptive.n_samples(n, left=left[name]) for name, n in given.items() if name in left}
        again = {
            name: {**overrides[name], "n_samples": n, "first_index": given[name]}
            for name, n in now.bounds.fit(wanted, spent).items()
        }
        return to_sends(state, now, again)

    def _planned(self, name: str, overrides: Mapping[str, Any]) -> int | None:
        """Returns the most responses of an agent in a round; None if it gives as many as it likes at once."""
        if overrides.get("temperature") == 0:  # all of them would be the same
            return None
        planned: int | None = overrides.get("n_samples", self._own[name])
        return planned

    def _given(self, state: CoEState) -> dict[str, int]:
        """Returns how many responses each agent gave in the round, without the agents that failed in it.

        An invalid proposal is a response, too, though it does not count.
        """
        invalid = Counter[str]()
        for spent in state["usages"]:
            if spent["sampling"] and spent["sampling"]["round"] == state["round"]:
                invalid[spent["agent"]] += spent["sampling"].get("n_invalid_calls", 0)
        rows = (row for row in state["responses"] if row["round"] == state["round"])
        failures = Counter(row["agent"] for row in rows if row["error"] is not None)
        given = Counter(row["agent"] for row in new_responses(state)) + invalid
        return {name: n for name, n in given.items() if failures[name] <= invalid[name]}

    def _settled(self, state: CoEState, left: Mapping[str, int], now: RunSettings) -> bool:
        if not self._may_settle:
            return False
        responses, labels = state["responses"][: len(state["labels"])], state["labels"]
        options: Mapping[str, Any] = {**self._measuring, "weights": now.weights}
        expected = forecast(responses, labels, left, confidence=self._adaptive.confidence, **options)
        measurement = measurement_of(state)
        if measurement.tied:  # after Algorithm 1, which is not forecast, where the plain lead is clear
            expected = replace(expected, lead=0.0)
        return is_settled(now.policy, replace(measurement, forecast=expected), now.rules.limits)


def _own(agent: Agent, max_samples: int | None) -> int | None:
    """Returns how many responses an agent gives in a round that sets no number; None if it is not known."""
    if getattr(agent, "temperature", None) == 0:
        return 1
    return getattr(agent, "n_samples", None) if max_samples is None else max_samples
