"""Places at an endpoint, and visits at a server, for as long as a context lasts."""

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager

from coe_agents.agents._requests.endpoints import Places, Replica, Replicas, Visit
from coe_agents.agents._requests.limits import Deadline
from coe_agents.agents._requests.steps import arun_steps, run_steps


@contextmanager
def taken(places: Places, seconds: float | None) -> Iterator[None]:
    turn = places.queue()
    try:
        yield run_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


@asynccontextmanager
async def ataken(places: Places, seconds: float | None) -> AsyncIterator[None]:
    turn = places.queue()
    try:
        yield await arun_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


@contextmanager
def visiting(servers: Replicas, failed: Collection[Replica] = (), *, seconds: float = 60) -> Iterator[Visit]:
    visit = run_steps(servers.take(Deadline(seconds), failed))
    try:
        yield visit
    finally:
        visit.leave()


@asynccontextmanager
async def avisiting(servers: Replicas) -> AsyncIterator[Visit]:
    visit = await arun_steps(servers.take(Deadline(60), ()))
    try:
        yield visit
    finally:
        visit.leave()
