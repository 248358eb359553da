"""Owns the rounds of a run: the requests to the agents, and the record of each round."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from langgraph.types import Send

from coe_agents.graph.run_settings import RunSettings
from coe_agents.graph.spending import tokens_used
from coe_agents.graph.state import AskedRequest, CoEState
from coe_agents.policy import Measurement
from coe_agents.policy.bounds import Bounds
from coe_agents.rounds import round_data
from coe_agents.types import RoundData, add_counts


def fan_out(
    settings: RunSettings,
    first: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda name, overrides: overrides,
) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks the agents in parallel: all of them, unless a strategy named only some.

    `first` returns an agent's first request of a round, from its name and what the round asks of it.
    """

    def ask_all(state: CoEState) -> list[Send]:
        now = settings.of(state)
        overrides = overrides_of(state, now)
        return to_sends(state, now.bounds, {name: first(name, own) for name, own in overrides.items()})

    return ask_all


def overrides_of(state: CoEState, settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Returns how the round's request to each agent differs from the usual one; agents not named are not asked."""
    n_samples = settings.bounds.n_samples
    usual = {} if n_samples is None else {"n_samples": n_samples}
    overrides = state["plan"]["overrides"]
    named = {name: {} for name in settings.agents} if overrides is None else overrides
    return {name: {**usual, **own} for name, own in named.items()}


def to_sends(state: CoEState, bounds: Bounds, overrides: Mapping[str, Mapping[str, Any]]) -> list[Send]:
    """Returns the requests of the round, with these changes for each agent."""
    turn = state["turn"]
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
    if bounds.deadline is not None:
        base |= {"started": state["clock"]["started"], "seconds": bounds.deadline - state["clock"]["elapsed"]}
    return [Send(name, {**base, **own}) for name, own in overrides.items()]


def account(state: CoEState, measurement: Measurement | None) -> list[RoundData]:
    """Returns the trajectory with the round just measured, once, however often the agents were asked."""
    former = before(state)
    used, earlier = tokens_used(state), add_counts([each["tokens"] for each in former])
    data = round_data(
        measurement,
        round=state["round"],
        strategy=state["plan"]["strategy"],
        shows_answers=state["plan"]["shows_answers"],
        former=former[-1] if former else None,
        former_labels=state["former_labels"],
        tokens=None if used is None or earlier is None else used - earlier,
        n_responses=len(new_responses(state)),
    )
    return [*former, data]


def agents_counted_as(state: CoEState, how: Literal["once", "not"]) -> set[str]:
    """Returns the agents that ignore their temperature and whose responses count in this way."""
    sampled = [(spent["agent"], spent["sampling"]) for spent in state["usages"]]
    return {agent for agent, record in sampled if record is not None and record.get("counted") == how}


def graded_agents(state: CoEState) -> set[str]:
    """Returns the agents that gave probabilities of choices in this round."""
    return {
        spent["agent"]
        for spent in state["usages"]
        if spent["sampling"] and spent["sampling"]["rung"] == "choice" and spent["sampling"]["round"] == state["round"]
    }


def before(state: CoEState) -> list[RoundData]:
    """Returns the trajectory of the rounds before this one."""
    return state["trajectory"][: state["round"]]


def new_responses(state: CoEState) -> list[Any]:
    """Returns the responses of the round, without failures."""
    return [row for row in state["responses"] if row["round"] == state["round"] and row["error"] is None]
