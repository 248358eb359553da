"""Owns which server of a model is asked: of those that can be reached, the one with the fewest requests."""

import threading
from collections.abc import AsyncIterator, Collection, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import LLMResult

from coe_agents.agents.limits import Deadline, Places
from coe_agents.errors import CoEError

_LOCK = threading.Lock()
"""One for all, since agents share endpoints."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One server of a model.

    Attributes:
        model: Its client, set up for sampling.
        address: For errors; "" for a model in this process.
        places: At the endpoint, with what is known of its being reached.
        identity: The same for all replicas of the process that are the same model at the same server.
    """

    model: BaseChatModel
    address: str
    places: Places
    identity: Hashable = None

    @property
    def is_set_aside(self) -> bool:
        return self.places.outage.is_set_aside


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request brought, and the server that answered it."""

    result: LLMResult
    replica: Replica

    @property
    def n_received(self) -> int:
        return len(self.result.generations[0])


@dataclass(frozen=True, slots=True)
class Visit:
    """A request at a server, or in the queue there; so many failures were known when the server was chosen."""

    replica: Replica
    turn: Future[None]
    n_failures: int

    @property
    def is_outdated(self) -> bool:
        """Whether the server has failed since it was chosen."""
        return self.replica.is_set_aside and self.replica.places.outage.n_failures > self.n_failures

    def answered(self) -> None:
        """Notes that the server can be reached."""
        self.replica.places.outage.answered(self.n_failures)


class Replicas:
    """The servers of one model, at least one; a lone one is asked whatever happens."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.all = tuple(replicas)
        self._next = 0

    @contextmanager
    def taken(self, deadline: Deadline, failed: Collection[Replica]) -> Iterator[Visit]:
        """Takes a place at a server for as long as the context lasts.

        Args:
            deadline: Until when to wait for a place.
            failed: Those that have failed this request; others come first.

        Raises:
            AgentTimeoutError: If none comes free in time.
        """
        while True:
            seconds = deadline.left()
            visit = self._chosen(failed)
            with visit.replica.places.taken(seconds, visit.turn):
                if not (visit.is_outdated and self._in_service()):
                    yield visit
                    return

    @asynccontextmanager
    async def ataken(self, deadline: Deadline, failed: Collection[Replica]) -> AsyncIterator[Visit]:
        """Takes a place at a server for as long as the context lasts; see `taken`."""
        while True:
            seconds = deadline.left()
            visit = self._chosen(failed)
            async with visit.replica.places.ataken(seconds, visit.turn):
                if not (visit.is_outdated and self._in_service()):
                    yield visit
                    return

    def of(self, model: BaseChatModel) -> Replica:
        """Returns the replica that has this model."""
        return next(replica for replica in self.all if replica.model is model)

    def is_another_ready(self, failed: Replica) -> bool:
        """Returns whether a server that was just set aside need not be waited for."""
        return failed.is_set_aside and self._in_service()

    def with_addresses(self, error: CoEError) -> CoEError:
        """Returns an error with all addresses in it, where none of several servers can be reached."""
        if len(self.all) > 1 and all(replica.places.outage.is_down for replica in self.all):
            addresses = ", ".join(replica.address or "this process" for replica in self.all)
            error.args = (f"none of its {len(self.all)} servers can be reached ({addresses}): {error.args[0]}",)
        return error

    def _in_service(self) -> bool:
        return any(not replica.is_set_aside for replica in self.all)

    def _chosen(self, failed: Collection[Replica]) -> Visit:
        with _LOCK:
            # ties go to the one whose turn it is
            in_turn = [*self.all[self._next :], *self.all[: self._next]]
            chosen = min(in_turn, key=lambda one: (one.is_set_aside, one in failed, one.places.load))
            self._next = (self.all.index(chosen) + 1) % len(self.all)
            chosen.places.outage.tried()
            return Visit(chosen, chosen.places.queue(), chosen.places.outage.n_failures)
