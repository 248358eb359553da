"""Owns `on_decision`: what a decided case is passed to, by the graph and by the council."""

import warnings
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Protocol, TypeAlias, runtime_checkable

from coe_agents._steps import Call, Steps
from coe_agents.checks import has_method
from coe_agents.decision.case import DecidedCase
from coe_agents.errors import describe_error


@runtime_checkable
class Recorder(Protocol):
    """Anything that records decided cases: `coe_agents.rulings.Recording`."""

    def check(self) -> None:
        """Refuses a run whose cases could not be recorded, before any agent is asked."""
        ...

    def record(self, case: DecidedCase) -> Steps[None]:
        """Records a case. It warns where its store fails: the answer is worth more than its record."""
        ...


OnDecision: TypeAlias = Recorder | Callable[[DecidedCase], object]
"""A recorder, or a function of the decided case; an asynchronous run calls the function in a thread."""


def check_on_decision(on_decision: object, where: str) -> None:
    """Refuses, by a TypeError, what is neither a recorder nor a function."""
    is_function = callable(on_decision) and not isinstance(on_decision, type)
    if not is_function:
        has_method(on_decision, "record", where, advice="Pass Recording(), or a function")
        return
    call = getattr(on_decision, "__call__", None)  # noqa: B004 - of an object, its method
    if iscoroutinefunction(on_decision) or iscoroutinefunction(call):
        raise TypeError(
            f"{where} must be a plain function; got {on_decision!r:.200}, which nobody would await. "
            'Write "def": an asynchronous run calls it in a thread'
        )


def pass_on(case: DecidedCase, on_decision: OnDecision) -> Steps[None]:
    """Passes a decided case on; where that fails it warns, and the decision stands."""
    if isinstance(on_decision, Recorder):
        yield from on_decision.record(case)
        return
    try:
        yield Call(on_decision, None, (case,))
    except Exception as error:  # the answer is worth more than what the function does with it
        function = getattr(on_decision, "__qualname__", type(on_decision).__name__)
        described = describe_error(error, on_decision)
        warnings.warn(
            f'"on_decision", {function}, failed, and the decision stands: {described}', stacklevel=2
        )
