"""Owns the requests of a round to the agents."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from langgraph.types import Send

from coe_agents.graph.context import RunSettings
from coe_agents.graph.state import AskedRequest, CoEState, SavedState
from coe_agents.prompts import STRUCTURED


def fan_out(settings: RunSettings) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks the agents in parallel: all of them, unless a strategy named only some."""

    def ask_all(state: CoEState) -> list[Send]:
        state = cast("CoEState", SavedState(state))
        now = settings.of(state)
        return _to_sends(state, now, _overrides_of(state, now))

    return ask_all


def _overrides_of(state: CoEState, settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Returns how the round's request to each agent differs from the usual one; agents not named are not asked."""
    n_samples = settings.bounds.n_samples
    usual = {} if n_samples is None else {"n_samples": n_samples}
    overrides = state["plan"]["overrides"]
    named = {name: {} for name in settings.agents} if overrides is None else overrides
    return {name: {**usual, **own} for name, own in named.items()}


def _to_sends(
    state: CoEState, settings: RunSettings, overrides: Mapping[str, Mapping[str, Any]]
) -> list[Send]:
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
    if (
        turn.get("answers") is not None
        and settings.answers is not None
        and settings.answers.instruction
    ):
        base["instruction"] = settings.answers.instruction
    if bounds.deadline is not None:
        base |= {
            "started": state["clock"]["started"],
            "seconds": bounds.deadline - state["clock"]["elapsed"],
        }
    return [Send(name, {**base, **own}) for name, own in overrides.items()]
