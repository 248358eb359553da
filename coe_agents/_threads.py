"""Owns the threads in which synchronous code calls models: they are used again, and end when idle."""

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")

_IDLE = 10.0
"""After so many seconds without a call a thread ends."""


class _Threads:
    """Threads without a bound on their number: a call never waits for another one, not even for one that hangs.

    They are daemons, so that such a call does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # a forked process has none of the threads

    def _begin(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._n_free = 0
        """Threads that wait, less the jobs in the queue, which are theirs."""

    def start(self, job: Callable[[], None]) -> None:
        with self._lock:
            is_one_free = self._n_free > 0
            self._n_free -= is_one_free
        if not is_one_free:
            threading.Thread(target=self._work, name="coe-agents-request", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        job = self._next()
        while job is not None:
            job()
            job = None  # what it holds is not kept while the thread waits
            with self._lock:
                self._n_free += 1
            job = self._next()

    def _next(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._jobs.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._n_free:  # else a job for this thread is about to be put there
                        self._n_free -= 1
                        return None


_THREADS = _Threads()


def start_call(call: Callable[..., _T], *args: Any) -> "Future[_T]":
    """Calls in a thread, in a copy of the present context, and returns the future of what it returns or raises.

    >>> start_call(divmod, 7, 2).result()
    (3, 1)
    """
    context, done = contextvars.copy_context(), Future[_T]()

    def run() -> None:
        try:
            result = context.run(call, *args)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    _THREADS.start(run)
    return done


def call_within(seconds: float | None, call: Callable[[], _T]) -> _T:
    """Calls; a call that outlasts `seconds` is left to itself, since a thread cannot be stopped.

    Raises:
        TimeoutError: If it does.
    """
    if seconds is None:
        return call()
    return start_call(call).result(seconds)
