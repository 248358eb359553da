"""Owns that a command which ends soon collects no garbage: there is hardly any, and to look for it takes long.

The libraries of models make half a million objects when they are imported, which all stay. To look through them takes
half as long as all of `ask`. Samples hold no cycles: what is done with is freed at once.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Lets no garbage be collected, now and at the end of the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # they count as old now: the next collection is a small one
        gc.enable()
        atexit.unregister(gc.freeze)
        atexit.register(gc.freeze)
