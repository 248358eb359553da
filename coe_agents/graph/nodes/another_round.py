"""Owns the node that starts another round, as planned by its strategy."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.types import Overwrite

from coe_agents.graph.context import RunSettings
from coe_agents.graph.nodes.agent import disable_streaming
from coe_agents.graph.round_state import begin_round, measurement_of, new_responses, spent_of
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import proposals_in_words
from coe_agents.graph.state import CoEState, Plan
from coe_agents.policy.bounds import Spent
from coe_agents.policy.settle import Rules
from coe_agents.rounds import RoundContext, RoundPlan
from coe_agents.rounds.strategies import Strategies
from coe_agents.rounds.strategy import check_plan


def another_round_node(settings: RunSettings, strategies: Strategies) -> TwoForms:
    """Returns the node that has a strategy plan the next round, and opens it."""

    def another_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        clock, agents = begin_round(state["clock"]["elapsed"]), settings.of(state).agents
        measurement = measurement_of(state)
        name, strategy = strategies.of(measurement.regime, wanted=state["verdict"]["strategy"])
        responding = [row["agent"] for row in new_responses(state)]
        round_context = RoundContext(
            question=state["turn"]["question"],
            messages=state["turn"]["conversation"],
            round=state["round"] + 1,
            measurement=measurement,
            n_responses={agent: responding.count(agent) for agent in agents},
            proposals=proposals_in_words(measurement),
        )
        with set_config_context(disable_streaming(config)) as context:  # a strategy may ask a model
            plan = check_plan(context.run(strategy, round_context), strategy=name, agents=agents)
        update = {
            "round": state["round"] + 1,
            "plan": Plan(
                strategy=name,
                overrides=_within_budget(
                    spent_of(state), settings.of(state).rules, plan, round_context
                ),
                shows_answers=plan.shows_answers,
            ),
            "clock": clock,
        }
        if plan.replaces:
            update |= {"former_responses": state["responses"], "responses": Overwrite([])}
        return update

    async def aanother_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        return await asyncio.to_thread(another_round, state, config)

    return TwoForms(another_round, aanother_round, name="another_round")


def _within_budget(
    spent: Spent, rules: Rules, plan: RoundPlan, asked: RoundContext
) -> dict[str, dict[str, Any]]:
    """Returns the requests to the agents, of fewer responses where the tokens that are left do not suffice for all."""
    overrides: dict[str, dict[str, Any]] = {
        agent: {**changes} for agent, changes in plan.overrides.items()
    }
    wanted = {
        agent: changes.get("n_samples", asked.n_responses[agent] or 1)
        for agent, changes in overrides.items()
    }
    fitting = wanted
    for bounds in filter(None, (rules.bounds, rules.limits)):
        fitting = bounds.fit(fitting, spent)
    if fitting == wanted:
        return overrides
    return {agent: {**overrides[agent], "n_samples": n} for agent, n in fitting.items()}
