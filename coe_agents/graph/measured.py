"""Owns the `Measurement` in the state: as plain data, and back."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from coe_agents.graph.state import CoEState
from coe_agents.policy import AgentMeasurement, Measurement
from coe_agents.rounds import conformity


def to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields with lists for tuples, as a checkpointer would give them back."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in _fields(measurement).items()}
    return plain | {"agents": {name: _fields(said) for name, said in measurement.agents.items()}}


def measurement_of(state: CoEState) -> Measurement:
    """Returns the last round's measurement with the rounds before it: what a policy and a strategy look at."""
    trajectory = state["trajectory"]
    measured = _from_plain(state["measured"] or {})
    return replace(measured, conformity=conformity(trajectory), history=tuple(trajectory[:-1]))


def _from_plain(measured: Mapping[str, Any]) -> Measurement:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    given["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    return Measurement(**given)


def _fields(instance: Measurement | AgentMeasurement) -> dict[str, Any]:
    """Returns what `dataclasses.asdict` does, without copying what the fields hold."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}
