"""Owns the node that measures the responses, and converts a measurement to plain data and back."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from langchain_core.runnables import RunnableConfig

from coe_agents.actions import ActionMatch
from coe_agents.clustering import Clusterer
from coe_agents.decision.data import view
from coe_agents.graph import events
from coe_agents.graph.rounds import account, graded_agents
from coe_agents.graph.run_settings import RunSettings
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import clusterer_of
from coe_agents.graph.state import CoEState
from coe_agents.policy import Decision, Measurement, measure
from coe_agents.policy.measurement import AgentMeasurement
from coe_agents.rounds import conformity


def measure_node(
    settings: RunSettings, measuring: Mapping[str, Any], *, coordination: str | None, clusterer: Clusterer
) -> TwoForms:
    """Returns the node that computes Collaborative Entropy; None without a trusted agent.

    `measuring` holds the options of `measure` and `forecast`: "weighting" and "divergence". The clusterer says which
    arguments of proposals are equal.
    """
    asks_model = isinstance(clusterer, ActionMatch) and clusterer.may_ask_model  # if it is resumed elsewhere
    is_brief = coordination is None and isinstance(measuring["divergence"], str) and not asks_model  # a millisecond

    def measure_responses(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        now, measurement = settings.of(state), None
        # probabilities that were read have no sampling error to bootstrap
        options: dict[str, Any] = {**measuring, **now.regimes, **({"n_resamples": 0} if graded_agents(state) else {})}
        if any(now.weights[response["agent"]] > 0 for response in responses):
            measurement = measure(
                responses,
                state["labels"],
                weights=now.weights,
                coordination=coordination,
                clusterer=clusterer_of(state, clusterer),
                question=state["turn"]["question"],
                **options,
            )
        measured = None if measurement is None else _to_plain(measurement)
        numbers = view(measured or dict.fromkeys(events.Measured.__annotations__), events.Measured)
        events.emit({**numbers, "event": "measured", "round": state["round"]})
        return {"measured": measured, "trajectory": account(state, measurement)}

    async def ameasure_responses(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        if is_brief:  # a thread would cost more
            return measure_responses(state, config)
        return await asyncio.to_thread(measure_responses, state, config)

    return TwoForms(measure_responses, ameasure_responses, name="measure")


def measurement_of(state: CoEState) -> Measurement:
    """Returns the last round's measurement with the earlier rounds, as policies and strategies see it."""
    trajectory, measured = state["trajectory"], state["measured"] or {}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in measured.items()
    }
    given["agents"] = {name: AgentMeasurement(**data) for name, data in measured["agents"].items()}
    return Measurement(**given | {"conformity": conformity(trajectory), "history": tuple(trajectory[:-1])})


def _to_plain(measurement: Measurement) -> dict[str, Any]:
    """Returns the fields, with lists for tuples, as a checkpointer would return them."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields_of(measurement).items()}
    return plain | {"agents": {name: fields_of(said) for name, said in measurement.agents.items()}}


def fields_of(instance: Measurement | AgentMeasurement | Decision) -> dict[str, Any]:
    """Returns the fields as `dataclasses.asdict` does, without copying the values."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}
