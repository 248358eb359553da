import asyncio
import time
from collections.abc import Callable, Iterator

PATIENCE = 60.0
"""Seconds after which it is taken never to hold."""


def wait_until(holds: Callable[[], bool]) -> None:
    """Returns once the function returns true; raises `TimeoutError` if it does not."""
    for seconds in _pauses():
        if holds():
            return
        time.sleep(seconds)


async def until(holds: Callable[[], bool]) -> None:
    """Returns once the function returns true; other tasks of the event loop run meanwhile."""
    for seconds in _pauses():
        if holds():
            return
        await asyncio.sleep(seconds)


def _pauses() -> Iterator[float]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        yield 0.002
    raise TimeoutError(f"it did not hold within {PATIENCE:g} s")
