"""Waiting for a state that another thread or process brings about, however slow the machine is."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Returns as soon as `holds()` is true; fails after `seconds`. In a coroutine: `await asyncio.to_thread(...)`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"still not so after {seconds} seconds"
        time.sleep(0.001)
