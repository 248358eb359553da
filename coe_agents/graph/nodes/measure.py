"""Owns the node that measures the responses."""

import asyncio
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from coe_agents.actions import ActionMatch
from coe_agents.clustering import Clusterer
from coe_agents.graph import events
from coe_agents.graph.context import RunSettings
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import clusterer_of
from coe_agents.graph.state import CoEState, account, to_plain
from coe_agents.measurement.weighting import Weighting
from coe_agents.policy import measure
from coe_agents.uncertainty.solvers import Solver


def measure_node(
    settings: RunSettings,
    *,
    weighting: Weighting,
    coordination: str | Solver | None,
    clusterer: Clusterer,
) -> TwoForms:
    """Returns the node that computes Collaborative Entropy; None without a trusted agent.

    The clusterer says which arguments of proposals are equal.
    """
    # a run that is resumed in another process asks again what the clustering has asked
    asks_model = isinstance(clusterer, ActionMatch) and clusterer.may_ask_model
    takes_long = asks_model or coordination is not None

    def measure_responses(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        now = settings.of(state)
        measurement = None
        thresholds: dict[str, Any] = now.regimes
        if any(now.weights[response["agent"]] > 0 for response in responses):
            measurement = measure(
                responses,
                state["labels"],
                weights=now.weights,
                weighting=weighting,
                coordination=coordination,
                clusterer=clusterer_of(state, clusterer),
                question=state["turn"]["question"],
                **thresholds,
            )
        measured = None
        event: dict[str, Any] = {"event": "measured", "round": state["round"]}
        event |= dict.fromkeys(events.MEASURED)
        if measurement is not None:
            measured = to_plain(measurement)
            event |= {name: measured[name] for name in events.MEASURED}
        events.emit(cast("events.Event", event))
        return {"measured": measured, "trajectory": account(state, measurement)}

    async def ameasure_responses(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        if takes_long:
            return await asyncio.to_thread(measure_responses, state, config)
        return measure_responses(state, config)  # a thread would cost more

    return TwoForms(measure_responses, ameasure_responses, name="measure")
