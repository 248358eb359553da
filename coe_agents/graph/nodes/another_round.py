"""Owns the node that starts another round, as planned by its strategy."""

import asyncio
import inspect
import time
from collections.abc import Awaitable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.types import Overwrite

from coe_agents.graph.nodes.agent import disable_streaming
from coe_agents.graph.nodes.measure import measurement_of
from coe_agents.graph.rounds import new_responses
from coe_agents.graph.run_settings import RunSettings
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.shown_tools import proposals_in_words
from coe_agents.graph.state import CoEState
from coe_agents.rounds import RoundContext, RoundPlan, Strategies, Strategy, check_plan


def another_round_node(settings: RunSettings, strategies: Strategies) -> TwoForms:
    """Returns the node that has a strategy plan the next round, and opens it."""

    def choose(state: CoEState) -> tuple[str, Strategy, RoundContext]:
        measurement = measurement_of(state)
        name, strategy = strategies.of(measurement.regime, wanted=state["verdict"]["strategy"])
        responding = [row["agent"] for row in new_responses(state)]
        context = RoundContext(
            question=state["asked"],
            messages=state["conversation"],
            round=state["round"] + 1,
            measurement=measurement,
            n_responses={agent: responding.count(agent) for agent in settings.of(state).agents},
            proposals=proposals_in_words(measurement),
        )
        return name, strategy, context

    def open_round(state: CoEState, name: str, plan: Any, started: float) -> dict[str, Any]:
        plan = check_plan(plan, strategy=name, agents=settings.of(state).agents)
        update = {
            "round": state["round"] + 1,
            "strategy": name,
            "wishes": {agent: dict(wishes) for agent, wishes in plan.wishes.items()},
            "shows_answers": plan.shows_answers,
            "started": started,
        }
        if plan.replaces:
            update |= {"former_responses": state["responses"], "responses": Overwrite([])}
        return update

    def another_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        started = time.time()
        name, strategy, round_context = choose(state)
        with set_config_context(disable_streaming(config)) as context:  # a strategy may ask a model
            plan = context.run(strategy, round_context)
        if inspect.iscoroutine(plan):
            plan.close()
            raise TypeError(
                f'the strategy "{name}" must be synchronous in a synchronous run; got a coroutine function. '
                'Call the graph with "ainvoke"'
            )
        return open_round(state, name, plan, started)

    async def aanother_round(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        started = time.time()
        name, strategy, round_context = choose(state)
        with set_config_context(disable_streaming(config)) as context:
            plan = await asyncio.to_thread(context.run, strategy, round_context)
            if inspect.isawaitable(plan):
                plan = await asyncio.create_task(_resolve(plan), context=context)
        return open_round(state, name, plan, started)

    return TwoForms(another_round, aanother_round, name="another_round")


async def _resolve(plan: Awaitable[RoundPlan]) -> RoundPlan:
    return await plan
