"""Owns the `Measurement` in the state: as plain data, and back."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from coe_agents.graph.state import CoEState
from coe_agents.policy import AgentMeasurement, Measurement
from coe_agents.rounds import conformity


def to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields with lists for tuples, as a checkpointer would give them back."""
    fields = asdict(measurement)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def measurement_of(state: CoEState) -> Measurement:
    """Returns the last round's measurement with the rounds before it: what a policy and a strategy look at."""
    trajectory = state["trajectory"]
    measured = _from_plain(state["measured"] or {})
    return replace(measured, conformity=conformity(trajectory), history=tuple(trajectory[:-1]))


def _from_plain(measured: Mapping[str, Any]) -> Measurement:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    fields["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    return Measurement(**fields)
