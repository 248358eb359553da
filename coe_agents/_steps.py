"""Owns sync and async execution of the same code: a generator without I/O yields steps, which are run either way."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from coe_agents._threads import call_within

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for a future."""

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
    """Does nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """Runs generators of steps at once; in the sync form one by one, until one of them returns an error."""

    parts: "Sequence[Steps[Any]]"


Step: TypeAlias = Wait | Call | Pause | Together
Steps: TypeAlias = Generator[Step, Any, _Result]


def run_steps(steps: Steps[_Result]) -> _Result:
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
        result: _Result = done.value
        return result
    finally:
        steps.close()


async def arun_steps(steps: Steps[_Result]) -> _Result:
    """Returns what the generator returns; see `run_steps`."""
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
        result: _Result = done.value
        return result
    finally:
        steps.close()


def _do(step: Step) -> Any:
    match step:
        case Wait(future, seconds):
            return future.result(seconds)
        case Call(call, _, arguments, options, seconds):
            return call_within(seconds, lambda: call(*arguments, **options))
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
        case Wait(future, seconds):
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        case Call(call, acall, arguments, options, seconds):
            async with asyncio.timeout(seconds):
                return await (acall or partial(asyncio.to_thread, call))(*arguments, **options)
        case Pause(seconds):
            return await asyncio.sleep(seconds)
        case Together([part]):
            return [await arun_steps(part)]
        case Together(parts):
            return await asyncio.gather(*map(arun_steps, parts))
