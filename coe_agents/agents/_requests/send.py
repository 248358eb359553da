"""Owns one request to a model: its place at a server, its time, its retries, and its failure as one of our errors.

Retries are here and nowhere else, since only here the deadline, the wait that the server asks for, and the responses to
other requests are known. A client's own retries are turned off where possible.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception

from coe_agents.agents._requests.capabilities import ModelCall
from coe_agents.agents._requests.endpoints import Answered, Replica, Replicas, Visit
from coe_agents.agents._requests.limits import Deadline, call_within
from coe_agents.agents.error_mapping import is_outage, status_of, to_agent_error
from coe_agents.errors import AgentError, CoEError, InvalidReplyError, is_control_flow
from coe_agents.redaction import prints_secret

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one model.

    Attributes:
        retries: How often a request that failed is sent again, to whichever server.
        request_timeout: Seconds for one attempt; None leaves it to the deadline.
        secrets: What is redacted in errors.
    """

    name: str
    replicas: Replicas
    retries: int
    request_timeout: float | None
    secrets: Collection[str]

    def ask(
        self, call: ModelCall, messages: list[BaseMessage], observed: Mapping[str, Any], deadline: Deadline
    ) -> Answered | CoEError:
        """Returns the model's reply, or what went wrong; `observed` are callbacks, tags and metadata."""

        def send(replica: Replica, seconds: float | None) -> Answered:
            result = call.on(replica.model).generate([messages], **observed, **call.arguments(seconds))
            return self._to_answered(result, replica)

        try:
            return self.try_(send, deadline, call.refusable)
        except CoEError as error:
            return error

    async def aask(
        self, call: ModelCall, messages: list[BaseMessage], observed: Mapping[str, Any], deadline: Deadline
    ) -> Answered | CoEError:
        """Returns the model's reply, or what went wrong; see `ask`."""

        async def send(replica: Replica, seconds: float | None) -> Answered:
            result = await call.on(replica.model).agenerate([messages], **observed, **call.arguments(seconds))
            return self._to_answered(result, replica)

        try:
            return await self.atry(send, deadline, call.refusable)
        except CoEError as error:
            return error

    def try_(
        self, send: Callable[[Replica, float | None], _T], deadline: Deadline, options: Collection[str] = ()
    ) -> _T:
        """Calls `send` with a server and the seconds that an attempt has; repeats it after a transient failure.

        Raises:
            CoEError: What went wrong in the end.
        """
        failed = list[Replica]()

        def attempt() -> _T:
            with self.replicas.take(deadline, failed) as visit:
                seconds = deadline.seconds_left(self.request_timeout)
                try:
                    result = call_within(seconds, lambda: send(visit.replica, seconds))
                except Exception as error:
                    failed.append(visit.replica)
                    self._fail(error, visit, options)
                    raise
                visit.note_answer()
                return result

        return Retrying(**self._rules(deadline, failed))(attempt)

    async def atry(
        self, send: Callable[[Replica, float | None], Awaitable[_T]], deadline: Deadline, options: Collection[str] = ()
    ) -> _T:
        """Calls `send`; see `try_`."""
        failed = list[Replica]()

        async def attempt() -> _T:
            async with self.replicas.atake(deadline, failed) as visit:
                seconds = deadline.seconds_left(self.request_timeout)
                try:
                    async with asyncio.timeout(seconds):
                        result = await send(visit.replica, seconds)
                except Exception as error:
                    failed.append(visit.replica)
                    self._fail(error, visit, options)
                    raise
                visit.note_answer()
                return result

        return await AsyncRetrying(**self._rules(deadline, failed))(attempt)

    def _rules(self, deadline: Deadline, failed: Sequence[Replica]) -> dict[str, Any]:
        def wait(state: RetryCallState) -> float:
            if self.replicas.is_another_ready(failed[-1]):
                return 0.0
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (state.attempt_number - 1))
            return max(random.uniform(longest / 2, longest), getattr(_error(state), "retry_after", None) or 0.0)

        def stop(state: RetryCallState) -> bool:
            if state.attempt_number > self.retries:
                return True
            try:
                left = deadline.seconds_left()
            except AgentError:
                return True
            return left is not None and state.upcoming_sleep >= left

        def give_up(state: RetryCallState) -> None:
            if isinstance(error := _error(state), CoEError):  # no other error is retried
                error.retryable = False
                raise error

        retry = retry_if_exception(lambda error: isinstance(error, CoEError) and error.retryable)
        return {"wait": wait, "stop": stop, "retry": retry, "retry_error_callback": give_up}

    def _to_answered(self, result: LLMResult, replica: Replica) -> Answered:
        if not result.generations or not result.generations[0]:
            hint = "Call the model directly to see why"
            raise InvalidReplyError(f'the model of "{self.name}" gave no response', hint=hint)
        return Answered(result, replica)

    def _fail(self, error: Exception, visit: Visit, options: Collection[str]) -> None:
        """Raises `error` as one of ours; returns for LangGraph's own control-flow exceptions."""
        if is_control_flow(error):
            return
        found = to_agent_error(error, address=visit.replica.address, options=options, secrets=self.secrets)
        if is_outage(error, found):
            visit.replica.places.outage.note_failure()
            found = self.replicas.with_addresses(found)
        elif status_of(error) is not None:
            visit.note_answer()
        if found is error:
            raise found
        # a traceback prints the cause, too, so it must hold no secret either
        raise found from (None if prints_secret(error, self.secrets) else error)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def tracing_options(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the options that make a model call visible to the caller's tracing; `generate` does not inherit them."""
    return {key: config[key] for key in ("callbacks", "tags", "metadata") if config and config.get(key)}
