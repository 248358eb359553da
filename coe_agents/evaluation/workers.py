"""Owns work in several processes of this machine; its results are those of one process, in the same order."""

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Map(Protocol):
    def __call__(self, function: Callable[[_Item], _Result], items: Iterable[_Item], /) -> Iterator[_Result]: ...


@dataclass(frozen=True, slots=True)
class Workers:
    """How many processes there are, and how a function is called in them: as by `map`, with results in order."""

    n: int = 1
    map: _Map = map


ALONE = Workers()
"""This process does all the work."""


@contextmanager
def start_workers(n_processes: int) -> Iterator[Workers]:
    """Starts so many processes until the context ends; for one, work is done in this process.

    What `map` is given and returns is sent between processes, so it can be pickled. Two items a process are in hand at
    most. An error is raised as the function raised it, at the place of its result.

    Raises:
        ChildProcessError: On a result, if a process was ended, by the machine for want of memory, say.
    """
    if n_processes == 1:
        yield ALONE
        return
    others = set(active_children())
    context = get_context("spawn")  # a fork would copy threads' locks as they are
    with ProcessPoolExecutor(n_processes, context, initializer=_begin, initargs=gc.get_threshold()) as pool:
        try:
            yield Workers(n_processes, partial(_map, pool, 2 * n_processes))
        except BrokenProcessPool as error:
            message = f"one of {n_processes} processes was ended; there may be too little memory. Use fewer"
            raise ChildProcessError(message) from error
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()  # what they are at is of no use
            raise


def n_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _map(
    pool: ProcessPoolExecutor, n_ahead: int, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[_Result]:
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) == n_ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begin(*threshold: int) -> None:
    """Lets Ctrl-C, which all processes of a terminal receive, end this one without a traceback; sets gc's threshold."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*threshold)
