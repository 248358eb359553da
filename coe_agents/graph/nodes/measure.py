"""Owns the node that measures the responses."""

import asyncio
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from coe_agents.actions import ActionMatch
from coe_agents.clustering import Clusterer
from coe_agents.graph import events
from coe_agents.graph.context import RunSettings
from coe_agents.graph.round_state import account, to_plain
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import clusterer_of
from coe_agents.graph.state import CoEState
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
    asks_model = (
        isinstance(clusterer, ActionMatch) and clusterer.may_ask_model
    )  # if it is resumed elsewhere
    is_brief = coordination is None and not asks_model  # a millisecond

    def measure_responses(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        responses = state["responses"][: len(state["labels"])]
        now, measurement = settings.of(state), None
        regimes: dict[str, Any] = now.regimes
        if any(now.weights[response["agent"]] > 0 for response in responses):
            measurement = measure(
                responses,
                state["labels"],
                weights=now.weights,
                weighting=weighting,
                coordination=coordination,
                clusterer=clusterer_of(state, clusterer),
                question=state["turn"]["question"],
                **regimes,
            )
        measured = None if measurement is None else to_plain(measurement)
        numbers = {name: (measured or {}).get(name) for name in events.MEASURED}
        events.emit(cast("events.Event", {"event": "measured", "round": state["round"], **numbers}))
        return {"measured": measured, "trajectory": account(state, measurement)}

    async def ameasure_responses(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        if is_brief:  # a thread would cost more
            return measure_responses(state, config)
        return await asyncio.to_thread(measure_responses, state, config)

    return TwoForms(measure_responses, ameasure_responses, name="measure")
