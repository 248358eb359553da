"""Owns work in several processes of this machine; its results are those of one process, in the same order."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_processes(
    function: Callable[[_Item], _Result], items: Iterable[_Item], n_processes: int
) -> Iterator[_Result]:
    """Yields what the function returns for each item, in order; for one process the work is done in this one.

    What it takes and returns is sent between processes, so it can be pickled. Two items a process are in hand at most.

    Raises:
        ChildProcessError: A process was ended, by the machine for want of memory, say.
    """
    if n_processes == 1:
        yield from map(function, items)
        return
    try:
        from joblib import Parallel, delayed
    except ModuleNotFoundError as error:
        raise ImportError(
            'several processes need joblib; pip install "coe-agents[evaluation]"'
        ) from error
    pool = Parallel(n_processes, pre_dispatch="2*n_jobs", batch_size=1, return_as="generator")
    try:
        yield from pool(delayed(function)(item) for item in items)
    except BrokenProcessPool as error:
        message = (
            f"one of {n_processes} processes was ended; there may be too little memory. Use fewer"
        )
        raise ChildProcessError(message) from error


def n_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
