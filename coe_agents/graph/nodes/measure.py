"""Owns the node that measures the responses, and converts a measurement to plain data and back."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from langchain_core.runnables import RunnableConfig

from coe_agents.graph import events
from coe_agents.graph.nodes.cluster import graded_options
from coe_agents.graph.rounds import account
from coe_agents.graph.run_settings import RunSettings
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.state import CoEState
from coe_agents.policy import AgentMeasurement, Measurement, Weighting, measure
from coe_agents.rounds import conformity
from coe_agents.uncertainty.divergences import Divergence


def measure_node(
    settings: RunSettings,
    *,
    weighting: Weighting,
    divergence: Divergence,
    coordination: str | None,
) -> TwoForms:
    """Returns the node that computes Collaborative Entropy; None without a trusted agent."""

    def measure_responses(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        now = settings.of(state)
        weights, (aleatoric, epistemic) = now.weights, now.regimes
        if not any(weights[response["agent"]] > 0 for response in responses):
            events.emit(events.measurement_event(state["round"], None))
            return {"measured": None, "trajectory": account(state, None)}
        measurement = measure(
            responses,
            state["labels"],
            weights=weights,
            weighting=weighting,
            divergence=divergence,
            coordination=coordination,
            **graded_options(state),
            aleatoric_threshold=aleatoric,
            epistemic_threshold=epistemic,
        )
        events.emit(events.measurement_event(state["round"], measurement))
        return {"measured": to_plain(measurement), "trajectory": account(state, measurement)}

    async def ameasure_responses(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        if coordination is None and isinstance(divergence, str):  # about a millisecond: a thread would cost more
            return measure_responses(state, config)
        return await asyncio.to_thread(measure_responses, state, config)

    return TwoForms(measure_responses, ameasure_responses, name="measure")


def measurement_of(state: CoEState) -> Measurement:
    """Returns the last round's measurement with the earlier rounds, as policies and strategies see it."""
    trajectory = state["trajectory"]
    measured = _from_plain(state["measured"] or {})
    return replace(measured, conformity=conformity(trajectory), history=tuple(trajectory[:-1]))


def to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields, with lists for tuples, as a checkpointer would return them."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in _fields(measurement).items()}
    return plain | {"agents": {name: _fields(said) for name, said in measurement.agents.items()}}


def _from_plain(measured: Mapping[str, Any]) -> Measurement:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    given["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    return Measurement(**given)


def _fields(instance: Measurement | AgentMeasurement) -> dict[str, Any]:
    """Returns the fields as `dataclasses.asdict` does, without copying the values."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}
