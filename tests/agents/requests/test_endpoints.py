import asyncio
import gc
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import pytest

from coe_agents._steps import arun_steps, run_steps
from coe_agents.agents._requests.send import Places, places_of
from coe_agents.errors import AgentTimeoutError
from tests.waiting import until, wait_until


@contextmanager
def taken(places, seconds):
    turn = places.queue()
    try:
        yield run_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


@asynccontextmanager
async def ataken(places, seconds):
    turn = places.queue()
    try:
        yield await arun_steps(places.wait(turn, seconds))
    finally:
        places.leave(turn)


def test_places_are_shared_by_threads_and_event_loops():
    places, busy, most, lock = Places(3), [0], [0], threading.Lock()

    def enter(step):
        with lock:
            busy[0] += step
            most[0] = max(most[0], busy[0])

    def in_thread():
        with taken(places, 60):
            enter(1)
            wait_until(lambda: most[0] == 3)
            time.sleep(0.01)  # more would come now
            enter(-1)

    async def in_loop():
        async with ataken(places, 60):
            enter(1)
            await until(lambda: most[0] == 3)
            await asyncio.sleep(0.01)
            enter(-1)

    async def many():
        await asyncio.gather(*(in_loop() for _ in range(10)))

    threads = [threading.Thread(target=in_thread) for _ in range(10)]
    threads += [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (busy, most) == ([0], [3])


async def test_who_gives_up_waiting_takes_no_place():
    places = Places(1)
    with taken(places, None):
        with pytest.raises(AgentTimeoutError, match=r"has 1 place, and none was free within"), taken(places, 0.01):
            pass
        with pytest.raises(AgentTimeoutError):
            async with ataken(places, 0.01):
                pass
        waiting = asyncio.create_task(ataken(places, None).__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with ataken(places, 0.1):  # free again
        pass


def test_the_smallest_bound_counts_while_anybody_holds_the_endpoint():
    first, second, other = (places_of(None, at, size) for at, size in (("x", 5), ("x", 2), ("y", 5)))
    assert first is second
    assert (first.size, other.size) == (2, 5)
    del first, second
    gc.collect()
    assert places_of(None, "x", 7).size == 7
