"""Owns the two forms of what is prepared and then collected: one is awaited, the other blocks, also in a notebook."""

import asyncio
import atexit
import inspect
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from coe_agents._removed import names_of_arguments, refuse_others
from coe_agents.text import quantity

_GRACE = 10.0
"""Seconds that a cancelled call has to close its files."""
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Collected_co = TypeVar("_Collected_co", covariant=True)


class Prepared(Protocol[_Collected_co]):
    """What is known before anybody is asked."""

    async def collect(self) -> _Collected_co:
        """Asks, and returns the result."""
        ...


def create_awaited(
    prepare: Callable[_Arguments, Prepared[_Result]],
    name: str,
    *,
    returns: type[_Result],
    owner: str | None = None,
) -> Callable[_Arguments, Coroutine[Any, Any, _Result]]:
    """Returns the coroutine function of this name that prepares and collects; `owner` as of `refuse_arguments`."""

    @wraps(prepare)
    async def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        check_arguments(name, prepare, args, kwargs, owner=owner)
        return await prepare(*args, **kwargs).collect()

    return with_signature(call, name, returns=returns)


def create_blocking(
    prepare: Callable[_Arguments, Prepared[_Result]],
    name: str,
    *,
    returns: type[_Result],
    owner: str | None = None,
) -> Callable[_Arguments, _Result]:
    """Returns the function of this name that prepares, and waits for what is collected."""

    @wraps(prepare)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        check_arguments(name, prepare, args, kwargs, owner=owner)
        return wait_for(prepare(*args, **kwargs))

    return with_signature(call, name, returns=returns)


def wait_for(prepared: Prepared[_Result]) -> _Result:
    """Returns what is collected; Ctrl-C cancels it, and waits for its end."""
    has_ended = threading.Event()
    notes: list[str] = []

    async def work() -> _Result:
        try:
            return await prepared.collect()
        except asyncio.CancelledError as error:
            notes.extend(getattr(error, "__notes__", ()))
            raise
        finally:
            has_ended.set()

    future = asyncio.run_coroutine_threadsafe(work(), _background_loop())
    try:
        return future.result()
    except KeyboardInterrupt as error:
        future.cancel()
        has_ended.wait(_GRACE)
        for note in notes:
            error.add_note(note)
        raise


def with_signature(function: _Function, name: str, *, returns: Any) -> _Function:
    """Returns a function under a name, which says what it returns, and not what the function in it returns."""
    named: Any = function
    named.__name__ = named.__qualname__ = name
    named.__signature__ = inspect.signature(function).replace(return_annotation=returns)
    return function


def check_arguments(
    function: str,
    called: Callable[..., object],
    places: Sequence[object],
    names: Collection[str],
    *,
    owner: str | None = None,
) -> None:
    """Raises a TypeError for an argument that is not known, for one too many without a name, and for a missing one.

    `function` is the name of a function that stands for the one `called`, whose name Python's own error would have.
    """
    refuse_others(function, names, known=names_of_arguments(called), owner=owner)
    takes_place = []
    needed = []
    only_named = []
    for name, parameter in inspect.signature(called).parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            takes_place.append(name)
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            only_named.append(name)
        else:
            continue
        if parameter.default is inspect.Parameter.empty:
            needed.append(name)

    n_most = len(takes_place)
    if len(places) > n_most:
        by_place = quantity(n_most, "argument")
        must = f"{function} must be called with at most {by_place} without a name"
        raise TypeError(f"{must}; got {len(places)}. Name the others, such as {only_named[0]}=...")

    given = {*takes_place[: len(places)], *names}
    for name in needed:
        if name not in given:
            raise TypeError(f'{function} must be called with "{name}"; got none. Pass {name}=...')


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """Returns the loop on which all calls of this process run: clients keep connections, which belong to one loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="coe-agents", daemon=True).start()
    atexit.register(loop.call_soon_threadsafe, loop.stop)
    return loop
