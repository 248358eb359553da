"""Owns the node that samples one agent, and turns its last failure into a row."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.runtime import get_runtime

from coe_agents._steps import Call, Steps
from coe_agents.decision.data import AgentTokens
from coe_agents.errors import (
    AgentError,
    AgentTimeoutError,
    IgnoredTemperatureError,
    InvalidReplyError,
    describe_error,
    is_control_flow,
    prints_secret,
    secrets_of,
)
from coe_agents.graph import events
from coe_agents.graph.round_state import seconds_since
from coe_agents.graph.runnables import TwoForms, steps_node
from coe_agents.graph.state import AskedRequest, check_request
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
_IS_JUDGED: ContextVar[Callable[[Agent], bool]] = ContextVar("is_judged", default=lambda _: False)


@contextmanager
def without_votes(is_judged: Callable[[Agent], bool]) -> Iterator[None]:
    """Has all graphs that run inside count these agents as agents that give no verdict, without asking them."""
    former = _IS_JUDGED.get()
    _IS_JUDGED.set(is_judged)
    try:
        yield
    finally:
        _IS_JUDGED.set(former)


def agent_node(
    agent: Agent, agents: Collection[str], *, attempts: int, graded: bool = True
) -> TwoForms:
    """Returns the node that samples one agent; its last failure becomes a row, so that the other agents' answers count.

    It is asked `attempts` times in all, and where `graded` it may give probabilities of choices instead of samples.
    """
    known = frozenset(agents)

    def to_update(request: AskedRequest, reply: AgentReply) -> dict[str, Any]:
        usage = create_usage(reply["usage"]["input_tokens"], reply["usage"]["output_tokens"])
        spent = AgentTokens(agent=agent.name, usage=usage, sampling=reply.get("sampling"))
        if not reply["responses"]:
            raise InvalidReplyError(f'"{agent.name}" gave no response', retryable=False)
        # numbered here: an agent of another kind may number them otherwise
        responses: list[Response] = [
            {**row, "index": index} for index, row in enumerate(reply["responses"])
        ]
        if failures := [row for row in responses if row["error"]]:
            secrets = secrets_of(agent)  # takes longer than the rest of the node
            for row in failures:
                row["error"] = safe_message(row["error"] or "", secrets)
        return {"responses": responses, "usages": [spent]}

    def to_failure(request: AskedRequest, error: Exception) -> dict[str, Any]:
        if is_control_flow(error):
            raise error
        may_retry = getattr(
            error, "retryable", not isinstance(error, ValueError | TypeError | ImportError)
        )
        message = describe_error(error, agent)
        execution = get_runtime().execution_info
        if may_retry and (1 if execution is None else execution.node_attempt) < attempts:
            # LangGraph logs what it retries, with the whole chain of causes
            if prints_secret(error, secrets_of(agent, error)):
                raise AgentError(message, retryable=True) from None
            raise error
        fault = error.fault if isinstance(error, InvalidReplyError) else None
        row = create_response(agent.name, "", round=request["round"], error=message, fault=fault)
        update: dict[str, Any] = {"responses": [row]}
        if (
            isinstance(error, IgnoredTemperatureError) and error.usage is not None
        ):  # it did respond: its tokens count
            update["usages"] = [
                AgentTokens(agent=agent.name, usage=error.usage, sampling=error.sampling)
            ]
        return update

    def sample(asked: AskedRequest, config: RunnableConfig) -> Steps[dict[str, Any]]:
        check_request(asked, known)
        finish = events.start_sampling(agent.name, asked["round"])
        if _IS_JUDGED.get()(agent):
            return finish(
                {"responses": [create_response(agent.name, _NO_VOTE, round=asked["round"])]}
            )
        try:
            request, seconds = in_time(asked, graded=graded)

            async def in_seconds(
                *given: Any,
            ) -> AgentReply:  # the other form, a call in this thread, cannot be cut off
                async with cut_off(seconds or 0.0):
                    return await agent.asample(*given)

            asample = agent.asample if seconds is None else in_seconds
            update = to_update(
                asked, (yield Call(agent.sample, asample, (request, disable_streaming(config))))
            )
        except Exception as error:
            update = to_failure(asked, error)
        return finish(update)

    return steps_node(sample, name=agent.name)


def in_time(asked: AskedRequest, *, graded: bool) -> tuple[AgentRequest, float | None]:
    """Returns what the agent is asked, with the seconds that are left, and when to cut it off.

    `graded`: whether it may give probabilities where it must choose.
    """
    request = asked.copy()
    seconds, started = request.pop("seconds", None), request.pop("started", None)
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


def disable_streaming(config: RunnableConfig) -> RunnableConfig:
    """Keeps an agent's samples out of `stream_mode="messages"`: nothing is shown before the gate."""
    return {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}


def _past_deadline() -> AgentTimeoutError:
    hint = "Raise `deadline` of the graph"
    return AgentTimeoutError("the deadline of the question has passed", hint=hint, retryable=False)
