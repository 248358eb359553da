"""Owns what a question has cost so far, as a run's state tells it."""

import threading
import time

from coe_agents.graph.state import CoEState
from coe_agents.policy.bounds import Spent
from coe_agents.types import add_counts


def spent_of(state: CoEState) -> Spent:
    """Returns the cost of a question so far."""
    return Spent(state["round"], tokens_used(state), seconds_used(state))


def begin_round() -> float:
    """Returns the present on the wall clock, from which `seconds_since` counts."""
    started = time.time()
    _note(started, time.monotonic())
    return started


def seconds_since(started: float) -> float:
    """Returns how long ago a round began.

    In the process that began it, and from the first call on in another one, a clock that is set changes nothing: only
    between two processes nothing but the wall clock tells how long it was.
    """
    now = time.monotonic()
    if (begun := _BEGUN.get(started)) is None:
        begun = now - max(0.0, time.time() - started)
        _note(started, begun)
    return now - begun


_MOST_ROUNDS = 10_000
_BEGUN: dict[float, float] = {}
"""When the latest rounds began on the monotonic clock of this process, by when that was on the wall clock."""
_LOCK = threading.Lock()


def _note(started: float, begun: float) -> None:
    with _LOCK:
        _BEGUN[started] = begun
        if len(_BEGUN) > _MOST_ROUNDS:
            del _BEGUN[next(iter(_BEGUN))]


def tokens_used(state: CoEState) -> int | None:
    """Returns what all requests have cost so far, input and output; None where that is not known."""
    usages = (spent["usage"] for spent in state["usages"])
    return add_counts(count for usage in usages for count in (usage["input_tokens"], usage["output_tokens"]))


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    The time between a decision and the next round, such as a person's, does not count.
    """
    return state["elapsed"] + seconds_since(state["started"])
