"""Owns another round in the graph: how it is planned, opened, and put to the agents."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import Overwrite, Send

from coe_agents.errors import AgentTimeoutError
from coe_agents.graph.bounds import Bounds, tokens_used
from coe_agents.graph.measured import measurement_of
from coe_agents.graph.state import AskedRequest, CoEState
from coe_agents.policy import Measurement
from coe_agents.rounds import RoundContext, Strategies, Strategy, checked_plan, round_data
from coe_agents.types import AgentRequest, RoundData

_GRACE = 0.5
"""Seconds that an agent has after the deadline to hand over what came by then, before it is cut off."""


def opening() -> dict[str, Any]:
    """Returns the state in which the first round of a question is asked; nothing of a former question is in it."""
    return {
        "round": 0,
        "strategy": None,
        "wishes": None,
        "shows_answers": False,
        "trajectory": [],
        "former_responses": Overwrite([]),
        "former_labels": {},
        "responses": Overwrite([]),
        "usages": Overwrite([]),
        "started": time.time(),
        "elapsed": 0.0,
    }


def fan_out(
    names: Sequence[str],
    bounds: Bounds,
    first: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda name, wished: wished,
) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks the agents at once: all of them, unless a strategy left some out.

    `first` makes of a name and what that agent is asked in the round what it is asked at first.
    """

    def ask_all(state: CoEState) -> list[Send]:
        wishes = wishes_of(state, names)
        return asking(state, bounds, {name: first(name, wished) for name, wished in wishes.items()})

    return ask_all


def wishes_of(state: CoEState, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns what each agent is asked in the round otherwise than in the first one; who is not named is not asked."""
    return {name: {} for name in names} if state["wishes"] is None else state["wishes"]


def asking(state: CoEState, bounds: Bounds, wishes: Mapping[str, Mapping[str, Any]]) -> list[Send]:
    """Returns the requests of the round with these wishes."""
    base = AskedRequest(question=state["asked"], messages=state["conversation"], round=state["round"])
    if state["allowed"] is not None:
        base["choices"] = state["allowed"]
    if (until := bounds.until(state)) is not None:
        base["until"] = until
    return [Send(name, {**base, **wished}) for name, wished in wishes.items()]


def in_time(asked: AskedRequest, *, graded: bool) -> tuple[AgentRequest, float | None]:
    """Returns what the agent is asked, with the seconds that are left, and when to cut it off.

    `graded` tells whether it may give probabilities where it must choose.

    Raises:
        AgentTimeoutError: If none are left.
    """
    request = asked.copy()
    until = request.pop("until", None)
    if "choices" in request:
        request["graded"] = graded
    if until is None:
        return request, None
    left = until - time.time()
    if left <= 0:
        raise _past_deadline()
    request["timeout"] = left
    return request, left + _GRACE


@asynccontextmanager
async def cut_off(seconds: float) -> AsyncIterator[None]:
    """Cancels what outlasts `seconds`, and raises `AgentTimeoutError` then."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():  # the agent's own
            raise
        raise _past_deadline() from error


def _past_deadline() -> AgentTimeoutError:
    hint = "Raise `deadline` of the graph"
    return AgentTimeoutError("the deadline of the question has passed", hint=hint, retryable=False)


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


def account(state: CoEState, measurement: Measurement | None) -> list[RoundData]:
    """Returns the trajectory with the round that was just measured, once, however often the agents were asked."""
    former = before(state)
    data = round_data(
        measurement,
        round=state["round"],
        strategy=state["strategy"],
        shows_answers=state["shows_answers"],
        former=former[-1] if former else None,
        former_labels=state["former_labels"],
        tokens=tokens_used(state) - sum(each["tokens"] for each in former),
        n_responses=len(_brought(state)),
    )
    return [*former, data]


def counted(state: CoEState, how: Literal["once", "not"]) -> set[str]:
    """Returns the agents that ignore their temperature, and whose responses count so."""
    sampled = [(spent["agent"], spent["sampling"]) for spent in state["usages"]]
    return {agent for agent, record in sampled if record is not None and record.get("counted") == how}


def before(state: CoEState) -> list[RoundData]:
    """Returns the trajectory of the rounds before this one."""
    return state["trajectory"][: state["round"]]


def _brought(state: CoEState) -> list[Any]:
    return [row for row in state["responses"] if row["round"] == state["round"] and row["error"] is None]
