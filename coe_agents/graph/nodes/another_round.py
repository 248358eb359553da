"""Owns the node that has a strategy plan another round, and opens it."""

import asyncio
import inspect
import time
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import Overwrite

from coe_agents.graph.nodes.measure import measurement_of
from coe_agents.graph.rounds import _brought
from coe_agents.graph.state import CoEState
from coe_agents.rounds import RoundContext, Strategies, Strategy, checked_plan


def another_round_node(names: Sequence[str], strategies: Strategies) -> Runnable[CoEState, dict[str, Any]]:
    """Returns the node that has a strategy plan the next round, and opens it."""

    def chosen(state: CoEState) -> tuple[str, Strategy, RoundContext]:
        measurement = measurement_of(state)
        name, strategy = strategies.of(measurement.regime, wanted=state["verdict"]["strategy"])
        came = [row["agent"] for row in _brought(state)]
        context = RoundContext(
            question=state["asked"],
            messages=state["conversation"],
            round=state["round"] + 1,
            measurement=measurement,
            n_responses={agent: came.count(agent) for agent in names},
        )
        return name, strategy, context

    def opened(state: CoEState, name: str, plan: Any, started: float) -> dict[str, Any]:
        plan = checked_plan(plan, strategy=name, agents=names)
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

    def another_round(state: CoEState) -> dict[str, Any]:
        started = time.time()
        name, strategy, context = chosen(state)
        plan = strategy(context)
        if inspect.iscoroutine(plan):
            plan.close()
            raise TypeError(
                f'the strategy "{name}" must be synchronous in a synchronous run; it is a coroutine function. '
                'Call the graph with "ainvoke"'
            )
        return opened(state, name, plan, started)

    async def aanother_round(state: CoEState) -> dict[str, Any]:
        started = time.time()
        name, strategy, context = chosen(state)
        plan = await asyncio.to_thread(strategy, context)  # it may ask a model
        return opened(state, name, await plan if inspect.isawaitable(plan) else plan, started)

    node = RunnableLambda(another_round, afunc=aanother_round, name="another_round")
    return node.with_config(tags=[TAG_NOSTREAM])
