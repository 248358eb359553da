"""Owns the servers of a model: which is asked, how many requests it gets, and when it is not used for a while."""

import threading
import time
import weakref
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import LLMResult

from coe_agents._plurals import quantity
from coe_agents.agents._requests.limits import Deadline
from coe_agents.agents._requests.steps import Steps, Wait
from coe_agents.errors import AgentTimeoutError, CoEError

_FIRST, _LONGEST = 1.0, 60.0
_now = time.monotonic
_LOCK = threading.Lock()
"""One lock for all, since agents share endpoints."""
_NO_WAIT: Future[None] = Future()
"""The turn of a request that need not wait."""
_NO_WAIT.set_result(None)


class Outage:
    """Whether an endpoint is avoided after failures, so that requests go to another one instead.

    It is avoided for a second after a failure, and for twice as long after each further one, a minute at most. Then one
    request tries it, and the others avoid it until that one is answered.
    """

    def __init__(self) -> None:
        self.n_failures = 0
        self._end = -float("inf")
        self._lock = threading.Lock()

    @property
    def is_down(self) -> bool:
        """Whether nothing was received since the last failure."""
        return self.n_failures > 0

    @property
    def is_set_aside(self) -> bool:
        """Whether requests should go to another endpoint."""
        return _now() < self._end

    def note_failure(self) -> None:
        """Notes a failure; simultaneous failures count once."""
        with self._lock:
            if not self.is_set_aside:
                self._extend()

    def note_try(self) -> None:
        """Notes that a request tries it again: it counts as failed until it has answered."""
        if self.n_failures == 0:  # mostly, and needs no lock
            return
        with self._lock:
            if self.is_down and not self.is_set_aside:
                self._extend()

    def note_answer(self, n_failures: int) -> None:
        """Notes an answer to a request sent after so many failures; ignored if there was another failure since."""
        if self.n_failures == 0:
            return
        with self._lock:
            if n_failures == self.n_failures:
                self.n_failures, self._end = 0, -float("inf")

    def _extend(self) -> None:
        self._end = _now() + min(_LONGEST, _FIRST * 2 ** min(self.n_failures, 16))
        self.n_failures += 1


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
        """How many requests are in flight or wait."""
        return self._n_taken + len(self._waiting)

    def queue(self) -> Future[None]:
        """Returns a turn, to wait for and to leave in the end."""
        with self._lock:
            if not self._waiting and self._n_taken < self.size:
                self._n_taken += 1
                return _NO_WAIT
            turn: Future[None] = Future()
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
        if turn is not _NO_WAIT and turn.cancel():  # it was still waiting
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


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One server of a model.

    Attributes:
        model: Its client, set up for sampling.
        address: "" for a model in this process.
        places: At the endpoint, with its `Outage`.
        identity: The same for all replicas of the process that are the same model at the same server.
    """

    model: BaseChatModel
    address: str
    places: Places
    identity: Hashable = None

    @property
    def is_set_aside(self) -> bool:
        return self.places.outage.is_set_aside


class Answered(NamedTuple):
    """The result of a request, and the server that answered it."""

    result: LLMResult
    replica: Replica

    @property
    def n_received(self) -> int:
        return len(self.result.generations[0])


class Visit(NamedTuple):
    """A request at a server, or in the queue there; so many failures were known when the server was chosen."""

    replica: Replica
    turn: Future[None]
    n_failures: int

    @property
    def is_outdated(self) -> bool:
        """Whether the server has failed since it was chosen."""
        return self.replica.is_set_aside and self.replica.places.outage.n_failures > self.n_failures

    def note_answer(self) -> None:
        """Notes that the server can be reached."""
        self.replica.places.outage.note_answer(self.n_failures)

    def leave(self) -> None:
        """Ends the visit."""
        self.replica.places.leave(self.turn)


class Replicas:
    """The servers of one model, at least one; a single one is asked even after failures."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.all = tuple(replicas)
        self._next = 0

    def take(self, deadline: Deadline, failed: Collection[Replica]) -> Steps[Visit]:
        """Returns a visit at a server, to be left in the end, preferring servers that have not `failed` before.

        Raises:
            AgentTimeoutError: If no place is free in time.
        """
        while True:
            seconds = deadline.seconds_left()
            visit = self._choose(failed)
            if visit.turn is not _NO_WAIT:
                try:
                    yield from visit.replica.places.wait(visit.turn, seconds)
                except BaseException:  # where the generator is closed, too
                    visit.leave()
                    raise
            if not (visit.is_outdated and self._is_any_in_service()):
                return visit
            visit.leave()

    def is_another_ready(self, failed: Replica) -> bool:
        """Returns whether a server that was just set aside need not be waited for."""
        return failed.is_set_aside and self._is_any_in_service()

    def with_addresses(self, error: CoEError) -> CoEError:
        """Returns an error with all addresses in it, where none of several servers can be reached."""
        if len(self.all) > 1 and all(replica.places.outage.is_down for replica in self.all):
            addresses = ", ".join(replica.address or "this process" for replica in self.all)
            error.args = (f"none of its {len(self.all)} servers can be reached ({addresses}): {error.args[0]}",)
        return error

    def _is_any_in_service(self) -> bool:
        return any(not replica.is_set_aside for replica in self.all)

    def _choose(self, failed: Collection[Replica]) -> Visit:
        with _LOCK:
            chosen = self.all[0]
            if len(self.all) > 1:
                # ties go to the one whose turn it is
                in_turn = [*self.all[self._next :], *self.all[: self._next]]
                chosen = min(in_turn, key=lambda one: (one.is_set_aside, one in failed, one.places.load))
                self._next = (self.all.index(chosen) + 1) % len(self.all)
            chosen.places.outage.note_try()
            return Visit(chosen, chosen.places.queue(), chosen.places.outage.n_failures)
