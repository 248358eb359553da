"""Owns what a caller may ask of one run: to make the gate tighter than the operator made it, and nothing else."""

from collections.abc import Collection, Mapping
from typing import Any

from coe_agents.checks import is_finite
from coe_agents.extensions import did_you_mean
from coe_agents.graph.context import CallersLimits
from coe_agents.policy import Bounds, CalibratedPolicy, Policy
from coe_agents.policy.bounds import NAMES, THRESHOLDS

_COUNTS = ("max_rounds", "token_budget")
_KINDS = {
    **dict.fromkeys(THRESHOLDS, "a number of at least 0"),
    **dict.fromkeys(_COUNTS, "an integer of at least 1"),
    "deadline": "a number above 0",
}
OPTIONS = ("agents", *NAMES)
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
    given: Mapping[str, Any], *, agents: Collection[str], operator: Bounds, is_adaptive: bool = False
) -> CallersLimits:
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
        >>> tighten({"max_coe": 0.2}, agents=["a"], operator=Bounds(max_coe=0.6)).max_coe
        0.2
        >>> tighten({"max_coe": 0.9}, agents=["a"], operator=Bounds(max_coe=0.6))
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
    return CallersLimits(**limits)


def _check_all_asked(value: object, agents: Collection[str]) -> None:
    if not isinstance(value, list) or {*map(str, value)} != set(agents):
        raise LooseningError(
            "agents", f'"agents" must be all agents, {", ".join(agents)}: a caller cannot choose who is asked. Omit it'
        )


def _at_most(name: str, value: Any, limit: float | None) -> float:
    is_number = is_finite(value) and (name not in _COUNTS or isinstance(value, int))
    if not is_number or value < 0 or (value == 0 and name not in THRESHOLDS):
        raise LooseningError(name, f'"{name}" must be {_KINDS[name]}. Correct it, or omit it')
    if limit is not None and value > limit:
        raise LooseningError(name, f'"{name}" must be at most {limit:g}, the operator\'s; got {value:g}. Lower it')
    return value if name in _COUNTS else float(value) + 0.0  # 0.0 for -0.0


def thresholds_of(policy: Policy) -> Bounds:
    """Returns the thresholds that a policy compares with CoE and its parts.

    Those of a policy of another kind are unknown here; a request may still add its own.
    """
    max_coe = getattr(policy, "max_coe", None)
    if isinstance(policy, CalibratedPolicy) and policy.calibration.judges_coe:
        max_coe = policy.calibration.threshold
    own = {name: getattr(policy, name, None) for name in ("aleatoric_threshold", "epistemic_threshold")}
    return Bounds(max_coe=max_coe, **own)
