"""Owns sync and async execution of the same code: a generator without I/O yields steps, which are run either way.

In the sync form, a call that has a time limit or must not be waited for is made in a thread: see `start_call`.
"""

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

_T = TypeVar("_T")

_IDLE = 10.0
"""After so many seconds without a call a thread ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    future: Future[Any]
    seconds: float | None


class Call(NamedTuple):
    """Calls a function in its sync or its async form; if it has none, in a thread."""

    call: Callable[..., Any]
    acall: Callable[..., Awaitable[Any]] | None
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    seconds: float | None = None


def invoke(runnable: Any, *arguments: Any) -> Call:
    """Returns the step that invokes a runnable of LangChain in either form."""
    return Call(runnable.invoke, runnable.ainvoke, arguments)


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """Runs generators of steps at once; in the sync form one by one, until one of them returns an error."""

    parts: "Sequence[Steps[Any]]"


Step: TypeAlias = Wait | Call | Pause | Together
Steps: TypeAlias = Generator[Step, Any, _T]


def run_steps(steps: Steps[_T]) -> _T:
    """Returns what the generator returns; it is sent the result of each step, or thrown its error."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = _do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as done:
        result: _T = done.value
        return result
    finally:
        steps.close()


async def arun_steps(steps: Steps[_T]) -> _T:
    try:
        step = next(steps)
        while True:
            try:
                outcome = await _ado(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as done:
        result: _T = done.value
        return result
    finally:
        steps.close()


def _do(step: Step) -> Any:
    match step:
        case Call(call, _, arguments, options, seconds):
            return call_within(seconds, lambda: call(*arguments, **options))
        case Wait(future, seconds):
            return future.result(seconds)
        case Pause(seconds):
            return time.sleep(seconds)
        case Together(parts):
            outcomes = list[Any]()
            for part in parts:
                outcomes.append(run_steps(part))
                if isinstance(outcomes[-1], Exception):
                    break
            return outcomes


async def _ado(step: Step) -> Any:
    match step:
        case Call(call, acall, arguments, options, seconds):
            made = (acall or partial(asyncio.to_thread, call))(*arguments, **options)
            if seconds is None:
                return await made
            async with asyncio.timeout(seconds):
                return await made
        case Wait(future, seconds):
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        case Pause(seconds):
            return await asyncio.sleep(seconds)
        case Together([part]):
            return [await arun_steps(part)]
        case Together(parts):
            return await asyncio.gather(*map(arun_steps, parts))


class _Threads:
    """Threads without a bound on their number: a call never waits for another one, not even for one that hangs.

    They are daemons, so that such a call does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            # a forked process has none of the threads
            os.register_at_fork(after_in_child=self._begin)

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
    """Calls in a thread, in a copy of the present context, and returns the future of what it returns or raises."""
    context, done = contextvars.copy_context(), Future[_T]()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return  # nobody waits any more
        try:
            result = context.run(call, *args)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    _THREADS.start(run)
    return done


def call_within(seconds: float | None, call: Callable[[], _T]) -> _T:
    """Calls; a call that outlasts `seconds` is left to itself, since a thread cannot be stopped."""
    if seconds is None:
        return call()
    return start_call(call).result(seconds)
