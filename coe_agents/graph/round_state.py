"""Owns what a run's state tells of the rounds so far: their responses, their measurement, and what they have cost."""

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from coe_agents.graph.state import Clock, CoEState
from coe_agents.measurement.measurement import AgentMeasurement, Run, Sampled
from coe_agents.measurement.proposals import Proposals
from coe_agents.policy import Decision, Measurement
from coe_agents.policy.bounds import Spent
from coe_agents.rounds.trajectory import conformity, round_data
from coe_agents.types import Response, RoundData, add_counts, add_usages


def spent_of(state: CoEState) -> Spent:
    """Returns the cost of a question so far."""
    rows = [*state["responses"], *state["former_responses"]]
    return Spent(
        state["round"],
        tokens_used(state),
        seconds_used(state),
        n_responses=[row["error"] for row in rows].count(None),
        n_agents=len({row["agent"] for row in new_responses(state)}),
    )


def begin_round(elapsed: float = 0.0) -> Clock:
    """Returns the clock of a round that begins now."""
    started = time.time()
    _begun(started)  # from here on, `seconds_since` counts
    return Clock(started=started, elapsed=elapsed)


def seconds_since(started: float) -> float:
    """Returns how long ago a round began; a clock that is set changes nothing in a process that has asked before."""
    return time.monotonic() - _begun(started)


@lru_cache(maxsize=10_000)
def _begun(started: float) -> float:
    """Returns when a round began, on the monotonic clock of this process; kept for the latest rounds.

    Where another process began it, the wall clock alone tells how long ago that was when this process first asks.
    """
    return time.monotonic() - max(0.0, time.time() - started)


def tokens_used(state: CoEState) -> int | None:
    """Returns what all requests have cost so far, input and output; None where that is not known."""
    total = add_usages(spent["usage"] for spent in state["usages"])
    return add_counts([total["input_tokens"], total["output_tokens"]])


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    The time between a decision and the next round, such as a person's, does not count.
    """
    return state["clock"]["elapsed"] + seconds_since(state["clock"]["started"])


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
    return {
        spent["agent"]
        for spent in state["usages"]
        if (record := spent["sampling"]) is not None and record.get("counted") == how
    }


def before(state: CoEState) -> list[RoundData]:
    """Returns the trajectory of the rounds before this one."""
    return state["trajectory"][: state["round"]]


def new_responses(state: CoEState) -> list[Response]:
    """Returns the responses of the round, without failures."""
    now = state["round"]
    return [row for row in state["responses"] if row["round"] == now and row["error"] is None]


def measurement_of(state: CoEState, *, tokens_left: float | None = None) -> Measurement:
    """Returns the last round's measurement with the earlier rounds, as policies and strategies see it."""
    measured = state["measured"] or {}
    fields = _with_tuples(measured)
    fields["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    fields["proposals"] = Proposals(**_with_tuples(measured["proposals"]))
    labels = state["labels"]
    fields["run"] = Run(
        history=tuple(state["trajectory"][:-1]),
        tokens_left=tokens_left,
        conformity=conformity(state["trajectory"]),
        sampled=Sampled(state["turn"]["question"], state["responses"][: len(labels)], labels),
    )
    return Measurement(**fields)


def to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields, with lists for tuples, as a checkpointer would return them.

    `run` is omitted: it follows from the rest of the state.
    """
    plain = _with_lists(fields_of(measurement))
    plain["agents"] = {name: fields_of(agent) for name, agent in measurement.agents.items()}
    plain["proposals"] = _with_lists(fields_of(measurement.proposals))
    del plain["run"]
    return plain


def _with_lists(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }


def fields_of(instance: Measurement | AgentMeasurement | Proposals | Decision) -> dict[str, Any]:
    """Returns the fields as `dataclasses.asdict` does, without copying the values."""
    return {name: getattr(instance, name) for name in instance.__dataclass_fields__}
