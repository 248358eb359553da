"""Owns the node that starts another round, as planned by its strategy."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.types import Overwrite

from coe_agents.graph.context import RunSettings
from coe_agents.graph.runnables import TwoForms, disable_streaming
from coe_agents.graph.shown_tools import proposals_in_words
from coe_agents.graph.state import (
    CoEState,
    PlanData,
    begin_round,
    measurement_of,
    new_responses,
    spent_of,
)
from coe_agents.policy.bounds import Spent
from coe_agents.policy.settle import Rules
from coe_agents.rounds import RoundContext, RoundPlan
from coe_agents.rounds.strategies import Strategies
from coe_agents.rounds.strategy import check_plan


def another_round_node(settings: RunSettings, strategies: Strategies) -> TwoForms:
    """Returns the node that has a strategy plan the next round, and opens it."""

    def another_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        clock = begin_round(state["clock"]["elapsed"])
        now = settings.of(state)
        measurement = measurement_of(state)
        name, strategy = strategies.of(measurement.regime, wanted=state["settled"]["strategy"])
        next_round = state["round"] + 1
        responding = [row["agent"] for row in new_responses(state)]
        round_context = RoundContext(
            question=state["turn"]["question"],
            messages=state["turn"]["conversation"],
            round=next_round,
            measurement=measurement,
            n_responses={agent: responding.count(agent) for agent in now.agents},
            proposals=proposals_in_words(measurement),
        )
        # a strategy may ask a model
        with set_config_context(disable_streaming(config)) as context:
            planned = context.run(strategy, round_context)
            plan = check_plan(planned, strategy=name, agents=now.agents)

        overrides = _within_budget(spent_of(state), now.rules, plan, round_context)
        next_plan = PlanData(strategy=name, overrides=overrides, shows_answers=plan.shows_answers)
        update = {"round": next_round, "plan": next_plan, "clock": clock}
        if plan.replaces:
            update["former_responses"] = state["responses"]
            update["responses"] = Overwrite([])
        return update

    async def aanother_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        return await asyncio.to_thread(another_round, state, config)

    return TwoForms(another_round, aanother_round, name="another_round")


def _within_budget(
    spent: Spent, rules: Rules, plan: RoundPlan, round_context: RoundContext
) -> dict[str, dict[str, Any]]:
    """Returns the requests to the agents, of fewer responses where the tokens that are left do not suffice for all."""
    overrides: dict[str, dict[str, Any]] = {}
    wanted: dict[str, int] = {}
    for agent, changes in plan.overrides.items():
        overrides[agent] = {**changes}
        n_former = round_context.n_responses[agent]
        wanted[agent] = changes.get("n_samples", n_former or 1)

    fitting = rules.bounds.fit(wanted, spent)
    if rules.limits is not None:
        fitting = rules.limits.fit(fitting, spent)
    if fitting == wanted:
        return overrides
    return {agent: {**overrides[agent], "n_samples": n} for agent, n in fitting.items()}
