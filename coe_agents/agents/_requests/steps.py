"""Owns sync and async execution of the same code: a generator without I/O yields steps, which are run either way."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

_Step = TypeVar("_Step")
_Result = TypeVar("_Result")


def run_steps(steps: Generator[_Step, Any, _Result], do: Callable[[_Step], Any]) -> _Result:
    """Returns what the generator returns; it is sent what `do` returns for each step, or thrown what `do` raises."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as done:
        result: _Result = done.value
        return result
    finally:
        steps.close()


async def arun_steps(steps: Generator[_Step, Any, _Result], do: Callable[[_Step], Awaitable[Any]]) -> _Result:
    """Returns what the generator returns; see `run_steps`."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as done:
        result: _Result = done.value
        return result
    finally:
        steps.close()
