"""Owns what this process does now, for whoever shows it: a model is loaded, agents answer, intervals are computed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COUNT: ContextVar[Callable[[int], None]] = ContextVar("count", default=lambda n: None)
"""Is called with how many more questions are done."""

_doing: dict[object, str] = {}


@contextmanager
def announce(what: str) -> Iterator[Callable[[str], None]]:
    """Notes what is done in a block, in any thread; yields a function that changes the note."""
    key = object()

    def change(what: str) -> None:
        _doing[key] = what

    change(what)
    try:
        yield change
    finally:
        del _doing[key]


def activities() -> list[str]:
    """Returns what is done now, the outer blocks first."""
    return list(_doing.values())
