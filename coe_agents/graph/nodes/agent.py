"""Owns the node that samples one agent, and turns its last failure into a row."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.runtime import get_runtime

from coe_agents.errors import (
    AgentError,
    AgentTimeoutError,
    IgnoredTemperatureError,
    InvalidReplyError,
    in_words,
    is_control_flow,
)
from coe_agents.graph import events
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.state import AskedRequest
from coe_agents.group_decision.data import AgentTokens
from coe_agents.redaction import prints_secret, redact, secrets_of
from coe_agents.types import Agent, AgentReply, AgentRequest, Response, create_response

_GRACE = 0.5
"""Seconds after the deadline in which an agent may still return what it has, before it is cut off."""


def agent_node(agent: Agent, *, attempts: int, graded: bool = True) -> TwoForms:
    """Returns the node that samples one agent; its last failure becomes a row, so that the other agents' answers count.

    `graded`: whether the agent may give probabilities of choices instead of samples.
    """

    def to_update(request: AskedRequest, reply: AgentReply) -> dict[str, Any]:
        spent = AgentTokens(agent=agent.name, usage=reply["usage"], sampling=reply.get("sampling"))
        if not reply["responses"]:
            raise InvalidReplyError(f'"{agent.name}" gave no response', retryable=False)
        # numbered here too: an agent may not know `first_index`
        rows = enumerate(reply["responses"], start=request.get("first_index", 0))
        responses: list[Response] = [{**row, "index": index} for index, row in rows]
        return {"responses": responses, "usages": [spent]}

    def to_failure(request: AskedRequest, error: Exception) -> dict[str, Any]:
        if is_control_flow(error):
            raise error
        may_retry = getattr(error, "retryable", not isinstance(error, ValueError | TypeError | ImportError))
        secrets = secrets_of(agent)
        message = redact(in_words(error), secrets)
        execution = get_runtime().execution_info
        if may_retry and (1 if execution is None else execution.node_attempt) < attempts:
            if prints_secret(error, secrets):  # LangGraph logs what it retries, with the whole chain of causes
                raise AgentError(message, retryable=True) from None
            raise error
        index = request.get("first_index", 0)
        row = create_response(agent.name, "", round=request["round"], index=index, error=message)
        update: dict[str, Any] = {"responses": [row]}
        if isinstance(error, IgnoredTemperatureError) and error.usage is not None:  # it did respond: its tokens count
            update["usages"] = [AgentTokens(agent=agent.name, usage=error.usage, sampling=error.sampling)]
        return update

    def sample(asked: AskedRequest, config: RunnableConfig) -> dict[str, Any]:
        finish = events.start_sampling(agent.name, asked["round"])
        try:
            request, _ = in_time(asked, graded=graded)  # a call in this thread cannot be cut off
            update = to_update(asked, agent.sample(request, disable_streaming(config)))
        except Exception as error:
            update = to_failure(asked, error)
        return finish(update)

    async def asample(asked: AskedRequest, config: RunnableConfig) -> dict[str, Any]:
        finish = events.start_sampling(agent.name, asked["round"])
        try:
            request, seconds = in_time(asked, graded=graded)
            async with nullcontext() if seconds is None else cut_off(seconds):
                update = to_update(asked, await agent.asample(request, disable_streaming(config)))
        except Exception as error:
            update = to_failure(asked, error)
        return finish(update)

    return TwoForms(sample, asample, name=agent.name)


def in_time(asked: AskedRequest, *, graded: bool) -> tuple[AgentRequest, float | None]:
    """Returns what the agent is asked, with the seconds that are left, and when to cut it off.

    `graded`: whether it may give probabilities where it must choose.
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
