"""Owns the limits on the rounds of a question: their number, their tokens and their time."""

import time
from dataclasses import dataclass

from coe_agents.checks import integer, number
from coe_agents.graph.state import CoEState
from coe_agents.rounds.strategy import MOST_ROUNDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one question; see `create_coe_graph`."""

    max_rounds: int = 1
    token_budget: int | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        integer(self.max_rounds, '"max_rounds"', least=1, most=MOST_ROUNDS, advice="1 asks each agent once")
        if self.token_budget is not None:
            number(self.token_budget, '"token_budget"', least=1, advice="Omit it for no bound")
        if self.deadline is not None:
            number(self.deadline, '"deadline" in seconds', above=0, advice="Omit it for no bound")

    def bound_on_rounds(self, state: CoEState) -> str | None:
        """Returns which bound forbids another round, with its numbers; None if one is allowed."""
        if state["round"] + 1 >= self.max_rounds:
            return f"no round is left after {self.max_rounds}"
        return self.bound_on_requests(state)

    def bound_on_requests(self, state: CoEState) -> str | None:
        """Returns which bound forbids any further request, with its numbers; None if one is allowed."""
        n_tokens = tokens_used(state)
        if self.token_budget is not None and n_tokens >= self.token_budget:
            return f"no tokens are left: {n_tokens} are used of a token_budget of {self.token_budget}"
        return self.bound_on_time(state)

    def bound_on_time(self, state: CoEState) -> str | None:
        """Returns a clause if the deadline has passed, else None."""
        if self.deadline is None or seconds_used(state) < self.deadline:
            return None
        return f"no time is left: {seconds_used(state):.2f} s are used of a deadline of {self.deadline:g} s"

    def until(self, state: CoEState) -> float | None:
        """Returns the wall-clock time at which the deadline passes if the current round lasts until then."""
        return None if self.deadline is None else state["started"] + self.deadline - state["elapsed"]


def tokens_used(state: CoEState) -> int:
    """Returns what all requests have cost so far, input and output."""
    return sum(spent["usage"]["input_tokens"] + spent["usage"]["output_tokens"] for spent in state["usages"])


def seconds_used(state: CoEState) -> float:
    """Returns how long the rounds have taken so far.

    It is wall-clock time, which outlives the process, without the time between a decision and the next round, such as a
    person's.
    """
    return state["elapsed"] + max(0.0, time.time() - state["started"])
