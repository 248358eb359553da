"""Owns `FixedRounds`: a fixed number of rounds, then another policy decides."""

from collections.abc import Mapping
from typing import Any, Self

from coe_agents._removed import refuses_removed
from coe_agents.checks import has_method, integer, require
from coe_agents.measurement.measurement import Measurement
from coe_agents.policy.base import Decision, Policy, Tunable, change_thresholds
from coe_agents.policy.bounds import MOST_ROUNDS, Bounds

_OF_THE_OTHER = ("actions", "aleatoric_threshold", "epistemic_threshold", "max_coe", "otherwise")


class FixedRounds(Tunable):
    """Asks `n` rounds whatever is measured, then decides as another policy: for experiments on rounds.

    Each round is asked by the strategy of its regime, and `decision["trajectory"]` holds what each of them changed. A
    graph with fewer `max_rounds` is refused. Thresholds are those of the other policy, also where a run changes them.

    Args:
        n: How many rounds in all, the first one included, 1 to 1,000.
        then: Decides after the last.

    Raises:
        TypeError: If `then` is no policy.
        ValueError: If `n` is out of range.

    Example:
        >>> from coe_agents import RegimePolicy
        >>> FixedRounds(3, then=RegimePolicy()).aleatoric_threshold
        0.5
    """

    @refuses_removed
    def __init__(self, n: int, *, then: Policy) -> None:
        advice = "2 or 3 are usual"
        self.n = integer(n, '"n" of FixedRounds', least=1, most=MOST_ROUNDS, advice=advice)
        advice = "Pass RegimePolicy(), for example"
        has_method(then, "decide", '"then" of FixedRounds', advice=advice)
        self.then = then
        self.thresholds = then.thresholds if isinstance(then, Tunable) else ()

    def __getattr__(self, name: str) -> Any:
        """Returns what graphs read of the policy that decides in the end."""
        if name not in _OF_THE_OTHER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.then, name)

    def with_thresholds(self, thresholds: Mapping[str, float]) -> Self:
        """Returns the same policy with other thresholds of the one that decides in the end."""
        return type(self)(self.n, then=change_thresholds(self.then, thresholds))

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "another_round" before the last round, then the decision of the other policy."""
        if round + 1 < self.n:
            reason = f"round {round + 1} of {self.n}"
            return Decision("another_round", None, reason, cause="rounds")
        return self.then.decide(measurement, round=round, max_rounds=max_rounds)

    def __repr__(self) -> str:
        return f"FixedRounds({self.n}, then={self.then!r})"


def rounds_of(policy: Policy, max_rounds: int | None) -> int:
    """Returns how many rounds may be asked: as many as are passed, or else as the policy needs."""
    Bounds(max_rounds=max_rounds)  # raises an error if it is no number of rounds
    if not isinstance(policy, FixedRounds):
        return 1 if max_rounds is None else max_rounds
    if max_rounds is None:
        return policy.n
    must = f'"max_rounds" must be at least {policy.n} for {policy!r}'
    require(max_rounds >= policy.n, must, max_rounds, f"Omit it, or pass max_rounds={policy.n}")
    return max_rounds
