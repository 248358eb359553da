"""Owns the runs of a group: within the limits of a request, and with nothing of a failure but its kind in any log."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from coe_agents.decision import GroupDecision
from coe_agents.errors import GroupUnavailableError
from coe_agents.graph.context import CallersLimits
from coe_agents.serve.api_error import ApiError
from coe_agents.serve.request_log import log_failure
from coe_agents.serve.served_group import Group

_RETRY_AFTER = "30"
"""Seconds after which a caller may ask a group again of which no model answered."""


class Runs:
    """Asks a group, any number of times at once; a run that fails raises `ApiError`. `callbacks` observe every run."""

    def __init__(self, group: Group, callbacks: Sequence[BaseCallbackHandler] = ()) -> None:
        self.group = group
        self._config = {"callbacks": list(callbacks)}
        self._graph = group.create_graph().compile(store=group.store)  # raises now what would fail every request

    async def run(self, given: Mapping[str, Any], limits: CallersLimits) -> Mapping[str, Any]:
        """Returns the result of a run; its decision is to abstain if the request's deadline passes before."""
        return [chunk async for chunk in self.stream(given, limits)][-1]

    async def stream(self, given: Mapping[str, Any], limits: CallersLimits) -> AsyncIterator[Mapping[str, Any]]:
        """Yields the events of a run, and at last its result, the only one without the key "event"; see `run`."""
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
        except TimeoutError:
            reason = "there was no decision before the deadline of the request"
            decision = GroupDecision(action="abstain", answer=None, reason=reason, n_rounds=0).data
            result = {"decision": {**decision, "is_late": True}, "responses": [], "labels": []}
        yield result


@asynccontextmanager
async def _watch(end: float | None) -> AsyncIterator[None]:
    """Ends the block at a time of the event loop's clock, by `TimeoutError`; another failure becomes an `ApiError`."""
    try:
        async with asyncio.timeout_at(end) as limit:
            yield
    except Exception as error:
        if limit.expired() and isinstance(error, TimeoutError):
            raise
        log_failure(error)
        if isinstance(error, GroupUnavailableError):
            message = "no model of the group answered. Ask later; the operator finds the cause with coe-agents doctor"
            raise ApiError(503, message, code="group_unavailable", headers={"Retry-After": _RETRY_AFTER}) from None
        message = f"the group failed ({type(error).__name__}). The operator can find the cause with coe-agents doctor"
        raise ApiError(500, message, code="group_failed") from None
