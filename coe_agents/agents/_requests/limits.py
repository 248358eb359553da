"""Owns the limits of asking: a deadline, a number of places at each endpoint, and a call that must not outlast them."""

import asyncio
import contextvars
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from coe_agents.agents._requests.circuit_breaker import Outage
from coe_agents.errors import AgentTimeoutError

_T = TypeVar("_T")


def check_limits(
    owner: str, *, timeout: float | None, request_timeout: float | None, retries: int, max_concurrency: int | None
) -> None:
    """Refuses limits that cannot work; `owner` is whose they are, for the error.

    Raises:
        ValueError: If a time is not above 0 seconds, `retries` is below 0, or `max_concurrency` below 1.
    """
    for option, seconds in (("timeout", timeout), ("request_timeout", request_timeout)):
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f'"{option}" must be above 0 seconds in {owner}; got {seconds!r}. None is no limit')
    if not retries >= 0:
        raise ValueError(f'"retries" must be at least 0 in {owner}; got {retries!r}. 0 never asks again')
    if max_concurrency is not None and not max_concurrency >= 1:
        raise ValueError(f'"max_concurrency" must be at least 1 in {owner}; got {max_concurrency!r}. 1 asks one by one')


class Deadline:
    """A point in time, `seconds` from now; never for None. `setting` is what a user would raise to have more."""

    def __init__(self, seconds: float | None, *, setting: str = "`timeout` of the agent") -> None:
        self.seconds = seconds
        self.setting = setting
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self, most: float | None = None) -> float | None:
        """Returns the seconds left, `most` at most; None for no limit.

        Raises:
            AgentTimeoutError: If none are left.
        """
        if self._end is None:
            return most
        left = self._end - time.monotonic()
        if left <= 0:
            raise AgentTimeoutError(
                f"no answer within {self.seconds:g} s", hint=f"Raise {self.setting}", retryable=False
            )
        return left if most is None else min(left, most)


class Places:
    """The places at one endpoint: so many requests at a time, from any thread or event loop.

    Requests are served in the order in which they arrive. Waiting blocks a thread, never an event loop.

    Attributes:
        outage: Whether the endpoint can be reached, as seen by all requests to it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.outage = Outage()
        self._n_taken = 0
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @property
    def load(self) -> int:
        """How many requests are under way or wait."""
        return self._n_taken + len(self._waiting)

    def queue(self) -> Future[None]:
        """Returns a turn, for `take` or `atake`."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
            self._admit()
        return turn

    @contextmanager
    def take(self, seconds: float | None, turn: Future[None] | None = None) -> Iterator[None]:
        """Takes a place for as long as the context lasts; raises `AgentTimeoutError` if none is free in time."""
        turn = turn or self.queue()
        try:
            try:
                turn.result(seconds)
            except TimeoutError as error:
                raise self._timeout_error(seconds) from error
            yield
        finally:
            self._leave(turn)

    @asynccontextmanager
    async def atake(self, seconds: float | None, turn: Future[None] | None = None) -> AsyncIterator[None]:
        """Takes a place for as long as the context lasts; see `take`."""
        turn = turn or self.queue()
        try:
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.wrap_future(turn)
            except TimeoutError as error:
                raise self._timeout_error(seconds) from error
            yield
        finally:
            self._leave(turn)

    def _leave(self, turn: Future[None]) -> None:
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

    def _timeout_error(self, seconds: float | None) -> AgentTimeoutError:
        return AgentTimeoutError(
            f"none of the {self.size} places at the endpoint was free within {seconds:g} s",
            hint="Raise `timeout` or `max_concurrency`, or ask fewer questions at a time",
            retryable=False,
        )


_PLACES: weakref.WeakValueDictionary[Hashable, Places] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def places_at(endpoint: Hashable, size: int) -> Places:
    """Returns the endpoint's places, one object for all callers; the smallest `size` asked for counts."""
    with _LOCK:
        places = _PLACES.get(endpoint)
        if places is None:
            places = _PLACES[endpoint] = Places(size)
        places.size = min(places.size, size)
        return places


def places_of(model: object, address: str, size: int | None = None) -> Places:
    """Returns the places at the address of a model, 16 unless given; without an address the model object's own, 64."""
    return places_at(address or id(model), size or (16 if address else 64))


def call_within(seconds: float | None, call: Callable[[], _T]) -> _T:
    """Calls; a call that outlasts `seconds` is left to itself, since a thread cannot be stopped.

    Raises:
        TimeoutError: If it does.
    """
    if seconds is None:
        return call()
    context, done = contextvars.copy_context(), Future[_T]()

    def run() -> None:
        try:
            done.set_result(context.run(call))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="coe-agents-request", daemon=True).start()
    return done.result(seconds)
