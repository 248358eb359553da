"""Owns the runs of a group: within the limits of a request, and with nothing of a failure but its kind in any log."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from coe_agents.decision import GroupDecision
from coe_agents.graph.context import CallersLimits
from coe_agents.serve.api_error import ApiError
from coe_agents.serve.group import Group
from coe_agents.serve.limits import tighten
from coe_agents.serve.request_log import log_failure


class Runs:
    """Asks a group, any number of times at once.

    Args:
        group: The group.
        callbacks: Observe every run.
    """

    def __init__(self, group: Group, callbacks: Sequence[BaseCallbackHandler] = ()) -> None:
        self.group = group
        self._config = {"callbacks": list(callbacks)}
        self._graph = group.create_graph().compile()  # raises now what would fail every request

    def limits_of(self, options: Mapping[str, Any]) -> CallersLimits:
        """Returns the limits that a request's `coe` sets.

        Raises:
            ApiError: If they are invalid, or looser than the operator's.
        """
        group = self.group
        return tighten(options, agents=group.agents, operator=group.limits, is_adaptive=group.is_adaptive)

    def check_question(self, question: str, *, param: str) -> None:
        """Refuses a question that the graph would refuse.

        Raises:
            ApiError: If it is too long.
        """
        longest = self.group.max_question_chars
        if len(question) > longest:
            message = f"the question must have at most {longest} characters; got {len(question)}. Shorten it"
            raise ApiError(400, message, param=param, code="context_length_exceeded")

    async def run(self, given: Mapping[str, Any], limits: CallersLimits) -> Mapping[str, Any]:
        """Returns the result of a run; its decision is to abstain if the request's deadline passes before.

        Raises:
            ApiError: If the run fails.
        """
        return [chunk async for chunk in self.stream(given, limits)][-1]

    async def stream(self, given: Mapping[str, Any], limits: CallersLimits) -> AsyncIterator[Mapping[str, Any]]:
        """Yields the events of a run, and at last its result, the only one without the key "event"; see `run`.

        Raises:
            ApiError: If the run fails.
        """
        result: dict[str, Any] = {}
        end = None if limits.deadline is None else asyncio.get_running_loop().time() + limits.deadline
        stream = self._graph.astream(given, self._config, context=limits, stream_mode=["custom", "values"])
        try:
            async with aclosing(stream):
                while True:
                    async with _watch(end):
                        part = await anext(stream, None)
                    if part is None:
                        break
                    mode, chunk = part
                    if mode == "values":
                        result = chunk
                    else:
                        yield chunk
        except _LateError:
            reason = "there was no decision before the deadline of the request"
            decision = GroupDecision(action="abstain", answer=None, reason=reason, n_rounds=0).data
            result = {"decision": {**decision, "is_late": True}, "responses": [], "labels": []}
        yield result


class _LateError(Exception):
    """The request's deadline has passed."""


@asynccontextmanager
async def _watch(end: float | None) -> AsyncIterator[None]:
    """Ends the block at a time of the event loop's clock; turns another failure into an error that a caller may see."""
    try:
        async with asyncio.timeout_at(end) as limit:
            yield
    except Exception as error:
        if limit.expired() and isinstance(error, TimeoutError):
            raise _LateError from None
        log_failure(error)
        message = f"the group failed ({type(error).__name__}). The operator can find the cause with coe-agents doctor"
        raise ApiError(500, message, code="group_failed") from None
