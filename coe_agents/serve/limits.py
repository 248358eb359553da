"""Owns what a caller may ask of one run: to make the gate tighter than the operator made it, and nothing else."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from coe_agents.checks import is_finite
from coe_agents.extensions import did_you_mean
from coe_agents.policy import CalibratedPolicy, Decision, Measurement, Policy
from coe_agents.policy.base import SettlingPolicy, otherwise, regime_thresholds
from coe_agents.policy.wording import coe_in_words
from coe_agents.serve.refusal import OWN_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a gate: those of an operator, or the lower ones of a request; None sets no limit.

    Attributes:
        max_coe: In nats; above it nothing is answered.
        aleatoric_threshold: In nats; the same for the first part of CoE.
        epistemic_threshold: In nats; the same for the second part, on the scale of "kl".
        max_rounds: Of a question.
        token_budget: No round begins once a question has used so many tokens.
        deadline: In seconds. A request's own is not the graph's: see `tighten`.
    """

    max_coe: float | None = None
    aleatoric_threshold: float | None = None
    epistemic_threshold: float | None = None
    max_rounds: int | None = None
    token_budget: int | None = None
    deadline: float | None = None


_COMPARED = ("max_coe", "aleatoric_threshold", "epistemic_threshold")
_COUNTS = ("max_rounds", "token_budget")
_KINDS = {
    **dict.fromkeys(_COMPARED, "a number of at least 0"),
    **dict.fromkeys(_COUNTS, "an integer of at least 1"),
    "deadline": "a number above 0",
}
OPTIONS = ("agents", "n_samples", *_COMPARED, *_COUNTS, "deadline")
"""The names of `CoEContext`."""


class LooseningError(ValueError):
    """An option of a request that is unknown, invalid, or would make the gate looser.

    Attributes:
        option: Its name.
    """

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


def tighten(
    given: Mapping[str, Any], *, agents: Collection[str], operator: Limits, is_adaptive: bool = False
) -> Limits:
    """Returns the limits that a request sets, each at most the operator's.

    A request's deadline ends the run without an answer. In the graph, a deadline cuts off the slow agents and
    lets the others decide, so that a caller could choose who is heard.

    Args:
        given: The options of the request, by the names of `CoEContext`.
        agents: The names of all agents.
        operator: The operator's limits.
        is_adaptive: Whether sampling is adaptive. A lower token budget would then end it early, and
            fewer responses measure less uncertainty.

    Raises:
        LooseningError: If an option is unknown, invalid or above the operator's.

    Example:
        >>> tighten({"max_coe": 0.2}, agents=["a"], operator=Limits(max_coe=0.6)).max_coe
        0.2
        >>> tighten({"max_coe": 0.9}, agents=["a"], operator=Limits(max_coe=0.6))
        Traceback (most recent call last):
            ...
        coe_agents.serve.limits.LooseningError: "max_coe" must be at most 0.6, the operator's; got 0.9. Lower it
    """
    limits = dict[str, Any]()
    for name, value in given.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS) or f"The options are {', '.join(OPTIONS)}"
            raise LooseningError(name, f'"{name}" is not an option of "coe". {hint}')
        if value is None:
            continue
        if name == "agents":
            _check_all_asked(value, agents)
        elif name == "n_samples":
            raise LooseningError(
                name, '"n_samples" is set by the operator: fewer responses would measure less uncertainty. Omit it'
            )
        else:
            limits[name] = _at_most(name, value, getattr(operator, name))
    if is_adaptive and "token_budget" in limits:
        raise LooseningError(
            "token_budget", '"token_budget" would end the adaptive sampling of this group early. Omit it'
        )
    return Limits(**limits)


def _check_all_asked(value: object, agents: Collection[str]) -> None:
    if not isinstance(value, list) or {*map(str, value)} != set(agents):
        raise LooseningError(
            "agents", f'"agents" must be all agents, {", ".join(agents)}: a caller cannot choose who is asked. Omit it'
        )


def _at_most(name: str, value: Any, limit: float | None) -> float:
    is_number = is_finite(value) and (name not in _COUNTS or isinstance(value, int))
    if not is_number or value < 0 or (value == 0 and name not in _COMPARED):
        raise LooseningError(name, f'"{name}" must be {_KINDS[name]}. Correct it, or omit it')
    if limit is not None and value > limit:
        raise LooseningError(name, f'"{name}" must be at most {limit:g}, the operator\'s; got {value:g}. Lower it')
    return value if name in _COUNTS else float(value) + 0.0  # 0.0 for -0.0


def thresholds_of(policy: Policy) -> Limits:
    """Returns the thresholds that a policy compares with CoE and its parts.

    Those of a policy of another kind are unknown here; a request may still add its own.
    """
    max_coe = getattr(policy, "max_coe", None)
    if isinstance(policy, CalibratedPolicy) and policy.calibration.judges_coe:
        max_coe = policy.calibration.threshold
    own = {name: getattr(policy, name, None) for name in ("aleatoric_threshold", "epistemic_threshold")}
    return Limits(max_coe=max_coe, **own)


class StricterPolicy:
    """Answers where a policy answers and CoE and its parts are within a request's limits, too.

    Elsewhere it does what the policy does where it does not answer. See `create_stricter_policy`.

    Args:
        policy: The operator's.
        limits: The request's.
        max_rounds: The operator's: a policy may answer in the last round what it would ask again before. The graph ends
            the rounds of the request; the policy does not know.
    """

    def __init__(self, policy: Policy, limits: Limits, *, max_rounds: int) -> None:
        self.policy, self.limits, self.max_rounds = policy, limits, max_rounds
        self.aleatoric_threshold, self.epistemic_threshold = regime_thresholds(policy)
        self.otherwise = otherwise(policy)

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the policy's decision, or its `otherwise` in place of an answer above a limit."""
        decision = self.policy.decide(measurement, round=round, max_rounds=self.max_rounds)
        if decision.action != "answer":
            return decision
        measured = (measurement.comparable_coe, measurement.aleatoric, measurement.comparable_epistemic)
        for name, value, limit in zip(_COMPARED, measured, self._compared(), strict=True):
            if not value <= limit:  # nor an answer whose uncertainty is no number
                what = coe_in_words(measurement) if name == "max_coe" else f"{name.partition('_')[0]} {value:.3f}"
                return Decision(self.otherwise, None, f"{what} exceeds {limit:g} nats, {OWN_LIMIT}")
        return decision

    def _compared(self) -> tuple[float, ...]:
        values = (getattr(self.limits, name) for name in _COMPARED)
        return tuple(math.inf if value is None else value for value in values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.policy!r}, {self.limits!r})"


class SettlingStricterPolicy(StricterPolicy):
    """The same for a policy that lets adaptive sampling stop early."""

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether the policy is settled, and each part of CoE will stay on its side of its limit.

        The limits do not matter where the policy does not answer: more responses could only change its mind.
        """
        forecast = measurement.forecast
        if forecast is None or not isinstance(self.policy, SettlingPolicy) or not self.policy.is_settled(measurement):
            return False
        if self.policy.decide(measurement, round=0, max_rounds=1).action != "answer":
            return True
        ranges = (forecast.total, forecast.aleatoric, forecast.epistemic)
        return all(low > limit or high <= limit for (low, high), limit in zip(ranges, self._compared(), strict=True))


def create_stricter_policy(policy: Policy, limits: Limits, *, max_rounds: int) -> StricterPolicy:
    """Returns the policy within a request's limits; see `StricterPolicy`.

    It lets adaptive sampling stop early only where the policy does. Under another one all responses are sampled at
    once; in steps, a token budget could end the sampling, and fewer responses measure less uncertainty.
    """
    kind = SettlingStricterPolicy if isinstance(policy, SettlingPolicy) else StricterPolicy
    return kind(policy, limits, max_rounds=max_rounds)
