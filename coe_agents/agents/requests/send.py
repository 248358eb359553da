"""Owns one request to a model: its place at a server, its time, its retries, and its failure as one of our errors.

Retries are here and nowhere else, since only here the deadline, the wait that the server asks for, and the responses to
other requests are known. A client's own retries are turned off where possible.
"""

import asyncio
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from coe_agents._steps import Call, Pause, Steps, Wait, start_call
from coe_agents.agents.error_mapping import (
    is_of_another_loop,
    is_stale,
    remedy_for_slow,
    to_agent_error,
)
from coe_agents.agents.requests.capabilities import ModelCall
from coe_agents.agents.requests.chat_models import bind_tools
from coe_agents.errors import (
    AgentTimeoutError,
    CoEError,
    InvalidReplyError,
    is_control_flow,
    prints_secret,
    secrets_of,
)
from coe_agents.text import quantity
from coe_agents.types import Fields, JsonObject

_LOCK = threading.Lock()
"""One lock for all, since agents share endpoints."""


class Deadline:
    """A point in time, `seconds` from now; never for None. `setting` is what a user would raise to have more."""

    def __init__(self, seconds: float | None, *, setting: str = "`timeout` of the agent") -> None:
        self.seconds = seconds
        self.setting = setting
        self._end = None if seconds is None else time.monotonic() + seconds

    def seconds_left(self, most: float | None = None) -> float | None:
        """Returns the seconds left, `most` at most; None for no limit. Raises `AgentTimeoutError` if none are left."""
        if self._end is None:
            return most
        left = self._end - time.monotonic()
        if left <= 0:
            raise AgentTimeoutError(
                f"no answer within {self.seconds:g} s",
                hint=remedy_for_slow(self.setting),
                retryable=False,
            )
        return left if most is None else min(left, most)


class Places:
    """The places at one endpoint: so many requests at a time, from any thread or event loop.

    Requests are served in the order in which they arrive. Waiting blocks a thread, never an event loop.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._n_taken = 0
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()
        self._owner: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._others: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def loop_of_connections(self) -> asyncio.AbstractEventLoop | None:
        """Returns the event loop that the connections of the async clients belong to: the first one that asks here.

        Once it has ended, a loop that asks for the first time takes its place, if nothing else is under way here: a
        request on a connection that was left open reaches the server, fails when the reply is read, and is sent again
        beside it. None where it has ended and no other takes its place.
        """
        now = asyncio.get_running_loop()
        with self._lock:
            owner = None if self._owner is None else self._owner()
            has_ended = owner is None or owner.is_closed()
            is_new = now not in self._others
            is_alone = self._n_taken <= 1
            if self._owner is None or (has_ended and is_new and is_alone):
                self._owner = weakref.ref(now)
                return now
            if owner is not now:
                self._others.add(now)
            return None if has_ended else owner

    def queue(self) -> Future[None]:
        """Returns a turn, to wait for and to leave in the end."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
            self._admit()
        return turn

    def wait(self, turn: Future[None], seconds: float | None) -> Steps[None]:
        """Waits for a turn to come; raises `AgentTimeoutError` if it does not come in time."""
        if turn.done():  # to wait on an event loop takes longer than all else here
            return
        try:
            yield Wait(turn, seconds)
        except TimeoutError as error:
            raise AgentTimeoutError(
                f"the endpoint has {quantity(self.size, 'place')}, and none was free within {seconds:.3g} s",
                hint="Raise `timeout` or `max_concurrency`, or ask fewer questions at a time",
                retryable=False,
            ) from error

    def leave(self, turn: Future[None]) -> None:
        """Gives the place back, or the place in the queue."""
        if turn.cancel():  # it was still waiting
            return
        with self._lock:
            self._n_taken -= 1
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._n_taken < self.size:
            turn = self._waiting.popleft()
            if turn.set_running_or_notify_cancel():
                self._n_taken += 1
                turn.set_result(None)


_PLACES: weakref.WeakValueDictionary[Hashable, Places] = weakref.WeakValueDictionary()


def places_of(model: object, address: str, size: int | None = None) -> Places:
    """Returns the places at a model's address, or without one at the model object; the same ones for all callers.

    The smallest `size` asked for counts; unless given, it is 16 at an address, and 64 at an object.
    """
    size = size or (16 if address else 64)
    with _LOCK:
        places = _PLACES.setdefault(address or id(model), Places(size))
        places.size = min(places.size, size)
        return places


@dataclass(frozen=True, slots=True)
class Server:
    """A model, set up for sampling, and where it answers; the address is "" for a model in this process."""

    model: BaseChatModel
    address: str
    places: Places


async def _agenerate(
    places: Places, model: BaseChatModel, *prompts: Any, **options: Any
) -> LLMResult:
    """Asks in this event loop, or in a thread where the connections of the model's async client are another loop's.

    A client shares its connections, and what it waits with, among all loops, and fails in all but one.
    """
    owner = places.loop_of_connections()
    if owner is asyncio.get_running_loop():
        try:
            return await model.agenerate(*prompts, **options)
        except RuntimeError as error:
            # what the model waits with may belong to a loop that has ended
            if not is_of_another_loop(error):
                raise
    generate = partial(model.generate, *prompts, **options)
    try:
        return await asyncio.wrap_future(start_call(generate))
    except NotImplementedError:  # it has an async form alone
        if owner is None or not owner.is_running():
            return await model.agenerate(*prompts, **options)
        future = asyncio.run_coroutine_threadsafe(model.agenerate(*prompts, **options), owner)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # nobody cancelled us: the other loop ended, and took the request with it
            raise ConnectionError("the event loop of the model's client ended meanwhile") from None


def call_model(
    places: Places,
    model: BaseChatModel,
    prompts: Sequence[Any],
    options: Fields,
    seconds: float | None,
) -> Call:
    """Returns the step that asks a model, in any number of threads and event loops."""
    return Call(model.generate, partial(_agenerate, places, model), (prompts,), options, seconds)


_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_MOST_DOUBLINGS = 10
"""Of the first wait: enough for the longest, and few enough for a floating-point number."""
_MOST_STALE = 100
"""As many connections of an event loop that has ended does a client keep; each fails once."""
_T = TypeVar("_T")
_Reply: TypeAlias = Steps[LLMResult]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one model, whose secrets are those of `holder`; no `request_timeout` leaves an attempt to the deadline."""

    name: str
    server: Server
    retries: int
    request_timeout: float | None
    holder: object

    def ask(
        self,
        call: ModelCall,
        messages: list[BaseMessage],
        observed: Fields,
        deadline: Deadline,
        tools: Sequence[Fields] = (),
    ) -> Steps[LLMResult | CoEError]:
        """Returns the model's reply, or what went wrong; `observed` are callbacks, tags and metadata."""

        def send(server: Server, seconds: float | None) -> _Reply:
            model = call.on(server.model)
            bound: Fields = {}
            if tools:
                model, bound = bind_tools(model, tools)
            options = {**bound, **observed, **call.arguments(seconds)}
            result: LLMResult = yield call_model(server.places, model, [messages], options, seconds)
            if not result.generations or not result.generations[0]:
                hint = "Call the model directly to see why"
                raise InvalidReplyError(f'the model of "{self.name}" gave no response', hint=hint)
            return result

        try:
            return (yield from self.retry(send, deadline, call.refusable))
        except CoEError as error:
            return error

    def retry(
        self,
        send: Callable[[Server, float | None], Steps[_T]],
        deadline: Deadline,
        options: Collection[str] = (),
    ) -> Steps[_T]:
        """Runs `send` with the server and the seconds that an attempt has; repeats it after a transient failure."""
        n_failures = 0
        while True:
            try:
                return (yield from self._visit(send, deadline, options))
            except CoEError as error:
                n_failures += 1
                pause = self._pause_after(error, n_failures, deadline)
                if pause is None:
                    error.retryable = False  # the retries are used up
                    raise
            yield Pause(pause)

    def _pause_after(self, error: CoEError, n_failures: int, deadline: Deadline) -> float | None:
        """Returns the seconds until the next attempt; None where it was the last."""
        if not error.retryable or n_failures > self.retries:
            return None
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(n_failures - 1, _MOST_DOUBLINGS))
        own_wait = random.uniform(longest / 2, longest)
        wait_of_server = getattr(error, "retry_after", None) or 0.0
        pause: float = max(own_wait, wait_of_server)
        try:
            left = deadline.seconds_left()
        except AgentTimeoutError:
            return None
        return pause if left is None or pause < left else None

    def _visit(
        self,
        send: Callable[[Server, float | None], Steps[_T]],
        deadline: Deadline,
        options: Collection[str],
    ) -> Steps[_T]:
        places = self.server.places
        seconds = deadline.seconds_left()
        turn = places.queue()
        n_stale = 0
        try:
            yield from places.wait(turn, seconds)
            while True:
                seconds = deadline.seconds_left(self.request_timeout)
                try:
                    return (yield from send(self.server, seconds))
                except Exception as error:
                    n_stale += is_stale(error)
                    if not is_stale(error) or n_stale > _MOST_STALE:
                        self._fail(error, options)
                        raise
        finally:
            places.leave(turn)

    def _fail(self, error: Exception, options: Collection[str]) -> None:
        """Raises `error` as one of ours; returns for LangGraph's own control-flow exceptions."""
        if is_control_flow(error):
            return
        secrets = secrets_of(self.holder, error)  # now: a client may have got a new key since
        address = self.server.address
        mapped = to_agent_error(error, address=address, options=options, secrets=secrets)
        if mapped is error:
            raise mapped
        # a traceback prints the cause, too, so it must hold no secret either
        cause = None if prints_secret(error, secrets) else error
        raise mapped from cause


def tracing_options(config: Fields | None) -> JsonObject:
    """Returns the options that make a model call visible to the caller's tracing; `generate` does not inherit them."""
    options = JsonObject()
    for key in ("callbacks", "tags", "metadata"):
        if config and config.get(key):
            options[key] = config[key]
    return options
