"""Owns what limits a request to a model: the places at its server, so many at a time, and a deadline."""

import threading
import time
import weakref
from collections import deque
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

from coe_agents._steps import Steps, Wait
from coe_agents.errors import AgentTimeoutError
from coe_agents.text import quantity

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
                f"no answer within {self.seconds:g} s", hint=f"Raise {self.setting}", retryable=False
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
