"""Owns one request to a model: its place at the endpoint, its time, its retries, and its failure as one of our errors.

Retries are here and nowhere else: only here the deadline, what the server asks to wait, and the responses that other
requests have already brought are known. So a client's own retries are turned off where they can be.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception

from coe_agents.agents.failures import to_agent_error
from coe_agents.agents.ladder import ModelCall
from coe_agents.agents.limits import Deadline, Places, call_within
from coe_agents.errors import AgentError, CoEError, InvalidReplyError
from coe_agents.redaction import is_told

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one model.

    Attributes:
        name: The agent's, for errors.
        address: The server's address, for hints; "" if there is none.
        places: At the endpoint.
        retries: How often a request that failed is sent again.
        request_timeout: Seconds for one attempt; None leaves it to the deadline.
        secrets: What no error may tell.
    """

    name: str
    address: str
    places: Places
    retries: int
    request_timeout: float | None
    secrets: Collection[str]

    def ask(
        self, call: ModelCall, messages: list[BaseMessage], observed: Mapping[str, Any], deadline: Deadline
    ) -> LLMResult | CoEError:
        """Returns the model's reply, or what went wrong.

        Args:
            call: The request.
            messages: The conversation.
            observed: Callbacks, tags and metadata.
            deadline: Of the agent, all attempts and waits included.
        """

        def attempt() -> LLMResult:
            try:
                with self.places.taken(deadline.left()):
                    seconds = deadline.left(self.request_timeout)
                    arguments = {**observed, **call.arguments(seconds)}
                    return self._spoken(call_within(seconds, lambda: call.model.generate([messages], **arguments)))
            except Exception as error:
                self._fail(error, call.refusable)
                raise

        try:
            result: LLMResult = Retrying(**self._rules(deadline))(attempt)
        except CoEError as error:
            return _final(error)
        return result

    async def aask(
        self, call: ModelCall, messages: list[BaseMessage], observed: Mapping[str, Any], deadline: Deadline
    ) -> LLMResult | CoEError:
        """Returns the model's reply, or what went wrong; see `ask`."""

        async def send(seconds: float | None) -> LLMResult:
            arguments = {**observed, **call.arguments(seconds)}
            return self._spoken(await call.model.agenerate([messages], **arguments))

        try:
            return await self.atry(send, deadline, call.refusable)
        except CoEError as error:
            return error

    async def atry(
        self, send: Callable[[float | None], Awaitable[_T]], deadline: Deadline, options: Collection[str] = ()
    ) -> _T:
        """Calls `send` with the seconds that an attempt has, at a place of the endpoint; again if it may yet succeed.

        Raises:
            CoEError: What went wrong in the end.
        """

        async def attempt() -> _T:
            try:
                async with self.places.ataken(deadline.left()):
                    seconds = deadline.left(self.request_timeout)
                    async with asyncio.timeout(seconds):
                        return await send(seconds)
            except Exception as error:
                self._fail(error, options)
                raise

        try:
            result: _T = await AsyncRetrying(**self._rules(deadline))(attempt)
        except CoEError as error:
            _final(error)
            raise
        return result

    def _rules(self, deadline: Deadline) -> dict[str, Any]:
        def wait(state: RetryCallState) -> float:
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (state.attempt_number - 1))
            return max(random.uniform(longest / 2, longest), getattr(_error(state), "retry_after", None) or 0.0)

        def stop(state: RetryCallState) -> bool:
            if state.attempt_number > self.retries:
                return True
            try:
                left = deadline.left()
            except AgentError:
                return True
            return left is not None and state.upcoming_sleep >= left

        return {"wait": wait, "stop": stop, "retry": retry_if_exception(_may_retry), "reraise": True}

    def _spoken(self, result: LLMResult) -> LLMResult:
        if not result.generations or not result.generations[0]:
            raise InvalidReplyError(f'the model of "{self.name}" gave no response', hint="Ask it directly")
        return result

    def _fail(self, error: Exception, options: Collection[str]) -> None:
        """Raises `error` as one of ours; what LangGraph raises for its own ends is left alone."""
        if any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__):
            return
        found = to_agent_error(error, address=self.address, options=options, secrets=self.secrets)
        if found is error:
            raise found
        # a cause is printed with a traceback, and must then tell nothing either
        raise found from (None if is_told(error, self.secrets) else error)


def _may_retry(error: BaseException) -> bool:
    return isinstance(error, CoEError) and error.retryable


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _final(error: CoEError) -> CoEError:
    error.retryable = False  # all that could be done has been
    return error


def observing(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what makes a model call visible to the caller's tracing; `generate` inherits none of it by itself."""
    return {key: config[key] for key in ("callbacks", "tags", "metadata") if config and config.get(key)}
