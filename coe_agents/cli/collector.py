"""Owns when Python's garbage collector runs in the process of a command: rarely while it works, not while it ends.

A full collection visits every object. torch, transformers and LangGraph make half a million at their import; nearly all
stay until the process ends, so that a collection finds next to nothing. Scoring leaves no garbage in cycles either.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

SHORT = 1_000_000
"""Objects after which garbage is collected by a command that imports much and then ends soon."""
ROWS = 20_000
"""New objects between two collections in commands that read questions one by one; low enough that memory stays flat."""


@contextmanager
def rare_collections(n_objects: int) -> Iterator[None]:
    """Collects garbage after so many new objects, without those freed since; Python's default is 700.

    No collection follows at the end of the block, unless objects are frozen: what was made in it counts as old.
    """
    before = gc.get_threshold()
    gc.set_threshold(n_objects, *before[1:])
    try:
        yield
    finally:
        # the lower threshold alone would start a collection that visits all of it, 0.3 s after `ask`; these two calls
        # move every object to the oldest generation and reset the count
        if not gc.get_freeze_count():  # what a caller froze stays frozen
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)


def skip_last_collections() -> None:
    """Excludes all objects that exist when the interpreter ends from its last collections; the process frees them.

    Exit handlers run as before, and a file that is left open is written to the end. What is in a reference cycle is not
    finalised, an open file included: what is still in its buffer is lost. Python does not promise otherwise.
    """
    atexit.unregister(gc.freeze)  # `main` may be called several times in one process
    atexit.register(gc.freeze)  # handlers run in reverse order: this one after all that are registered later
