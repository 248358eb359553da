"""Owns what a question has cost so far, as a run's state tells it."""

import time

from coe_agents.graph.state import CoEState
from coe_agents.policy.bounds import Bounds, Spent
from coe_agents.types import add_counts


def spent_of(state: CoEState) -> Spent:
    """Returns the cost of a question so far."""
    return Spent(state["round"], tokens_used(state), seconds_used(state))


def until(bounds: Bounds, state: CoEState) -> float | None:
    """Returns the wall-clock time at which the deadline passes if the current round lasts until then."""
    return None if bounds.deadline is None else state["started"] + bounds.deadline - state["elapsed"]


def tokens_used(state: CoEState) -> int | None:
    """Returns what all requests have cost so far, input and output; None where that is not known."""
    usages = (spent["usage"] for spent in state["usages"])
    return add_counts(count for usage in usages for count in (usage["input_tokens"], usage["output_tokens"]))


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    It is wall-clock time, which outlives the process, without the time between a decision and the next round, such as a
    person's.
    """
    return state["elapsed"] + max(0.0, time.time() - state["started"])
