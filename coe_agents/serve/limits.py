"""Owns what a caller may ask of one run: to make the gate tighter than the operator made it, and nothing else."""

from collections.abc import Collection, Mapping
from typing import Any

from coe_agents.extensions import did_you_mean
from coe_agents.graph.context import CallersLimits
from coe_agents.policy import CalibratedPolicy, Policy
from coe_agents.policy.bounds import NAMES, Bounds
from coe_agents.serve.api_error import ApiError, invalid_request

OPTIONS = ("agents", *NAMES)
"""The names of `CoEContext`."""


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
        ApiError: If an option is unknown, invalid or above the operator's.

    Example:
        >>> tighten({"max_coe": 0.2}, agents=["a"], operator=Bounds(max_coe=0.6)).max_coe
        0.2
        >>> tighten({"max_coe": 0.9}, agents=["a"], operator=Bounds(max_coe=0.6))
        Traceback (most recent call last):
            ...
        coe_agents.serve.api_error.ApiError: "max_coe" must be at most 0.6, the operator's; got 0.9. Lower it
    """
    limits = dict[str, Any]()
    for name, value in given.items():
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS) or f"The options are {', '.join(OPTIONS)}"
            raise _refused(name, f'"{name}" is not an option of "coe". {hint}')
        if value is None:
            continue
        if name == "agents":
            if not isinstance(value, list) or {*map(str, value)} != set(agents):
                must = f'"agents" must be all agents, {", ".join(agents)}: a caller cannot choose who is asked'
                raise _refused(name, f"{must}. Omit it")
        elif name == "n_samples":
            raise _refused(
                name, '"n_samples" is set by the operator: fewer responses would measure less uncertainty. Omit it'
            )
        else:
            limits[name] = _at_most(name, value, getattr(operator, name))
    if is_adaptive and "token_budget" in limits:
        raise _refused("token_budget", '"token_budget" would end the adaptive sampling of this group early. Omit it')
    return CallersLimits(**limits)


def _at_most(name: str, value: Any, limit: float | None) -> float:
    try:
        given: float = getattr(Bounds(**{name: value}), name)
    except (TypeError, ValueError) as error:
        raise _refused(name, str(error)) from error
    if limit is not None and given > limit:
        raise _refused(name, f'"{name}" must be at most {limit:g}, the operator\'s; got {given:g}. Lower it')
    return given + 0  # 0.0 for -0.0


def _refused(name: str, message: str) -> ApiError:
    return invalid_request(f"coe.{name}", message)


def thresholds_of(policy: Policy) -> Bounds:
    """Returns the thresholds that a policy compares with CoE and its parts.

    Those of a policy of another kind are unknown here; a request may still add its own.
    """
    max_coe = getattr(policy, "max_coe", None)
    if isinstance(policy, CalibratedPolicy) and policy.calibration.judges_coe:
        max_coe = policy.calibration.threshold
    own = {name: getattr(policy, name, None) for name in ("aleatoric_threshold", "epistemic_threshold")}
    return Bounds(max_coe=max_coe, **own)
