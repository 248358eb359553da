"""Owns work in several processes of this machine; its results are those of one process, in the same order."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from threading import active_count
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Map(Protocol):
    def __call__(
        self, function: Callable[[_Item], _Result], items: Iterable[_Item], /
    ) -> Iterator[_Result]: ...


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
    # a forked process need import nothing; but it copies locks that other threads hold
    context = get_context("fork" if sys.platform == "linux" and active_count() == 1 else "spawn")
    # Ctrl-C, which all processes of a terminal receive, ends these without a traceback
    quietly = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(n_processes, context, quietly) as pool:
        pool.submit(int)  # forked ones start here, before files are opened
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
    pool: ProcessPoolExecutor,
    n_ahead: int,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
) -> Iterator[_Result]:
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) == n_ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
