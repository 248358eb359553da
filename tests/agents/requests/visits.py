"""Places at an endpoint, for as long as a context lasts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from coe_agents._steps import arun_steps, run_steps
from coe_agents.agents._requests.endpoints import Places


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
