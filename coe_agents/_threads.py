"""Owns the threads in which synchronous code calls models.

Each call has a thread of its own, so that none waits for another one that hangs; it is a daemon, so that such a call
does not keep the process from ending.
"""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


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

    threading.Thread(target=run, name="coe-agents-request", daemon=True).start()
    return done


def call_within(seconds: float | None, call: Callable[[], _T]) -> _T:
    """Calls; a call that outlasts `seconds` is left to itself, since a thread cannot be stopped.

    Raises:
        TimeoutError: If it does.
    """
    if seconds is None:
        return call()
    return start_call(call).result(seconds)
