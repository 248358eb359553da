"""Owns what a question has cost so far, as a run's state tells it."""

import time

from coe_agents.graph.state import CoEState
from coe_agents.policy.bounds import Bounds, Spent


def spent_of(state: CoEState) -> Spent:
    """Returns the cost of a question so far."""
    return Spent(state["round"], tokens_used(state), seconds_used(state))


def until(bounds: Bounds, state: CoEState) -> float | None:
    """Returns the wall-clock time at which the deadline passes if the current round lasts until then."""
    return None if bounds.deadline is None else state["started"] + bounds.deadline - state["elapsed"]


def tokens_used(state: CoEState) -> int:
    """Returns what all requests have cost so far, input and output."""
    return sum(spent["usage"]["input_tokens"] + spent["usage"]["output_tokens"] for spent in state["usages"])


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    It is wall-clock time, which outlives the process, without the time between a decision and the next round, such as a
    person's.
    """
    return state["elapsed"] + max(0.0, time.time() - state["started"])
