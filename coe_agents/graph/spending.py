"""Owns what a question has cost so far, as a run's state tells it."""

import time
from functools import lru_cache

from coe_agents.graph.state import Clock, CoEState
from coe_agents.policy.bounds import Spent
from coe_agents.types import add_counts, add_usages


def spent_of(state: CoEState) -> Spent:
    """Returns the cost of a question so far."""
    return Spent(state["round"], tokens_used(state), seconds_used(state))


def begin_round(elapsed: float = 0.0) -> Clock:
    """Returns the clock of a round that begins now."""
    started = time.time()
    _begun(started)  # from here on, `seconds_since` counts
    return Clock(started=started, elapsed=elapsed)


def seconds_since(started: float) -> float:
    """Returns how long ago a round began; a clock that is set changes nothing in a process that has asked before."""
    return time.monotonic() - _begun(started)


@lru_cache(maxsize=10_000)
def _begun(started: float) -> float:
    """Returns when a round began, on the monotonic clock of this process; kept for the latest rounds.

    Where another process began it, the wall clock alone tells how long ago that was when this process first asks.
    """
    return time.monotonic() - max(0.0, time.time() - started)


def tokens_used(state: CoEState) -> int | None:
    """Returns what all requests have cost so far, input and output; None where that is not known."""
    total = add_usages(spent["usage"] for spent in state["usages"])
    return add_counts([total["input_tokens"], total["output_tokens"]])


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    The time between a decision and the next round, such as a person's, does not count.
    """
    return state["clock"]["elapsed"] + seconds_since(state["clock"]["started"])
