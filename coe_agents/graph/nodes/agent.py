"""Owns how the agents are asked: the requests of a round, and the node that samples one agent.

The last failure of an agent becomes a row, so that the answers of the others count.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime
from langgraph.types import Send

from coe_agents._steps import Call, Steps
from coe_agents.decision.data import AgentTokens
from coe_agents.errors import (
    AgentError,
    AgentTimeoutError,
    InvalidReplyError,
    describe_error,
    is_control_flow,
    prints_secret,
    secrets_of,
)
from coe_agents.graph import events
from coe_agents.graph.context import RunSettings
from coe_agents.graph.runnables import TwoForms, disable_streaming, steps_node
from coe_agents.graph.state import AskedRequest, CoEState, SavedState, check_request, seconds_since
from coe_agents.prompts import STRUCTURED
from coe_agents.text import safe_message
from coe_agents.types import (
    Agent,
    AgentReply,
    AgentRequest,
    Response,
    create_response,
    create_usage,
)

_GRACE = 0.5
"""Seconds after the deadline in which an agent may still return what it has, before it is cut off."""
_NO_VOTE = "(no vote: its own model wrote what is judged)"
"""The reply of an agent that is not asked, which is no verdict. A failure would let the others decide alone."""
_WROTE_WHAT_IS_JUDGED: ContextVar[Callable[[Agent], bool]] = ContextVar(
    "wrote_what_is_judged", default=lambda _: False
)


@contextmanager
def without_votes(wrote_what_is_judged: Callable[[Agent], bool]) -> Iterator[None]:
    """Has all graphs that run inside count these agents as agents that give no verdict, without asking them."""
    former = _WROTE_WHAT_IS_JUDGED.get()
    _WROTE_WHAT_IS_JUDGED.set(wrote_what_is_judged)
    try:
        yield
    finally:
        _WROTE_WHAT_IS_JUDGED.set(former)


def agent_node(
    agent: Agent, agents: Collection[str], *, attempts: int, graded: bool = True
) -> TwoForms:
    """Returns the node that samples one agent; its last failure becomes a row, so that the other agents' answers count.

    It is asked `attempts` times in all, and where `graded` it may give probabilities of choices instead of samples.
    """
    names = frozenset(agents)

    def to_update(reply: AgentReply) -> dict[str, Any]:
        usage = create_usage(reply["usage"]["input_tokens"], reply["usage"]["output_tokens"])
        spent = AgentTokens(agent=agent.name, usage=usage, sampling=reply.get("sampling"))
        if not reply["responses"]:
            raise InvalidReplyError(f'"{agent.name}" gave no response', retryable=False)
        # numbered here: an agent of another kind may number them otherwise
        responses: list[Response] = [
            {**row, "index": index} for index, row in enumerate(reply["responses"])
        ]
        failures = [row for row in responses if row["error"]]
        if failures:
            secrets = secrets_of(agent)  # takes longer than the rest of the node
            for row in failures:
                row["error"] = safe_message(row["error"] or "", secrets)
        return {"responses": responses, "usages": [spent]}

    def to_failure(request: AskedRequest, error: Exception) -> dict[str, Any]:
        if is_control_flow(error):
            raise error
        is_fault_of_code = isinstance(error, ValueError | TypeError | ImportError)
        may_retry = getattr(error, "retryable", not is_fault_of_code)
        message = describe_error(error, agent)
        execution = get_runtime().execution_info
        attempt = 1 if execution is None else execution.node_attempt
        if may_retry and attempt < attempts:
            # LangGraph logs what it retries, with the whole chain of causes
            if prints_secret(error, secrets_of(agent, error)):
                raise AgentError(message, retryable=True) from None
            raise error
        fault = error.fault if isinstance(error, InvalidReplyError) else None
        row = create_response(agent.name, "", round=request["round"], error=message, fault=fault)
        update: dict[str, Any] = {"responses": [row]}
        if isinstance(error, AgentError) and error.usage is not None:
            # it did respond: its tokens count
            sampling = getattr(error, "sampling", None)
            tokens = AgentTokens(agent=agent.name, usage=error.usage, sampling=sampling)
            update["usages"] = [tokens]
        return update

    def sample(asked: AskedRequest, config: RunnableConfig) -> Steps[dict[str, Any]]:
        check_request(asked, names)
        finish = events.start_sampling(agent.name, asked["round"])
        if _WROTE_WHAT_IS_JUDGED.get()(agent):
            no_vote = create_response(agent.name, _NO_VOTE, round=asked["round"])
            return finish({"responses": [no_vote]})
        try:
            request, seconds = in_time(asked, graded=graded)

            async def in_seconds(*arguments: Any) -> AgentReply:
                async with cut_off(seconds or 0.0):
                    return await agent.asample(*arguments)

            # the sync form, a call in this thread, cannot be cut off
            asample = agent.asample if seconds is None else in_seconds
            reply = yield Call(agent.sample, asample, (request, disable_streaming(config)))
            update = to_update(reply)
        except Exception as error:
            update = to_failure(asked, error)
        return finish(update)

    return steps_node(sample, name=agent.name)


def in_time(asked: AskedRequest, *, graded: bool) -> tuple[AgentRequest, float | None]:
    """Returns the request to the agent, with the seconds that are left, and when to cut the agent off.

    `graded`: whether the agent may give probabilities where it must choose.
    """
    request = asked.copy()
    seconds = request.pop("seconds", None)
    started = request.pop("started", None)
    del request["state_version"], request["asked_agents"]
    if "choices" in request:
        request["graded"] = graded
    if seconds is None or started is None:
        return request, None
    left = seconds - seconds_since(started)
    if left <= 0:
        raise _past_deadline()
    request["timeout"] = left
    return request, left + _GRACE


@asynccontextmanager
async def cut_off(seconds: float) -> AsyncIterator[None]:
    """Cancels the block after `seconds`, and raises `AgentTimeoutError`."""
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


def fan_out(settings: RunSettings) -> Callable[[CoEState], list[Send]]:
    """Returns the edge that asks the agents in parallel: all of them, unless a strategy named only some."""

    def ask_all(state: CoEState) -> list[Send]:
        state = cast("CoEState", SavedState(state))
        now = settings.of(state)
        return _to_sends(state, now, _overrides_of(state, now))

    return ask_all


def _overrides_of(state: CoEState, settings: RunSettings) -> dict[str, dict[str, Any]]:
    """Returns how the round's request to each agent differs from the usual one; agents not named are not asked."""
    n_samples = settings.bounds.n_samples
    usual = {} if n_samples is None else {"n_samples": n_samples}
    planned = state["plan"]["overrides"]
    if planned is None:
        planned = {name: {} for name in settings.agents}
    return {name: {**usual, **changes} for name, changes in planned.items()}


def _to_sends(
    state: CoEState, settings: RunSettings, overrides: Mapping[str, Mapping[str, Any]]
) -> list[Send]:
    """Returns the requests of the round, with these changes for each agent."""
    turn = state["turn"]
    bounds = settings.bounds
    base = AskedRequest(
        question=turn["question"],
        messages=turn["conversation"],
        round=state["round"],
        state_version=turn["state_version"],
        asked_agents=list(overrides),
    )
    if turn["choices"] is not None:
        base["choices"] = turn["choices"]
    if turn["is_review"]:
        base["is_review"] = True
    if turn["tools"] is not None:
        base["tools"] = turn["tools"]
    schema = turn.get("answer_schema")
    if schema is not None:
        base["instruction"] = STRUCTURED.format(schema=json.dumps(schema))
    preset = settings.answers
    if preset is not None and preset.instruction and turn["answers"] is not None:
        base["instruction"] = preset.instruction
    if bounds.deadline is not None:
        base["started"] = state["clock"]["started"]
        base["seconds"] = bounds.deadline - state["clock"]["elapsed"]
    return [Send(name, {**base, **changes}) for name, changes in overrides.items()]
