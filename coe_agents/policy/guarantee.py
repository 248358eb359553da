"""Owns what the guarantee of a calibration depends on: how a group differs from the one that was calibrated."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from coe_agents.clustering.described import differing_options, without_place
from coe_agents.policy.calibrated import AskedAgent, CalibratedAgent, CalibratedPolicy, Calibration
from coe_agents.policy.fixed_rounds import FixedRounds
from coe_agents.types import JsonObject

_Policy = TypeVar("_Policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedGroup:
    """A group as a guarantee sees it.

    Attributes:
        clusterer_options: Its options, see `coe_agents.clustering.described`; None where they are not known.
        prompt: What is said to them around a question; "" for nothing.
        answers: What is recorded of the preset by which they are asked for answers; "" for none.
    """

    agents: Mapping[str, AskedAgent]
    clusterer: str
    clusterer_options: JsonObject | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    prompt: str = ""
    answers: str = ""


def differences(calibration: Calibration, group: AskedGroup) -> list[str]:
    """Returns in what a group differs from the calibrated one, a clause each; what was not recorded is left out."""
    agents = ", ".join(sorted(group.agents))
    calibrated_agents = ", ".join(sorted(calibration.agents))
    weights = _shares(group.weights, group.agents)
    calibrated_weights = _shares(calibration.weights or {}, group.agents)
    parts = [
        ("clusterer", group.clusterer, calibration.clusterer),
        ("agents", agents, calibrated_agents),
        ("weights", weights, calibrated_weights),
    ]
    clauses: list[str] = []
    for part, now, then in parts:
        if now != then:
            clauses.append(f"{part} {now} differs from {then} at calibration")
    if group.clusterer == calibration.clusterer:
        clauses += differing_options(group.clusterer_options, calibration.clusterer_options)

    if calibration.prompt not in (None, group.prompt):
        clauses.append("the questions are asked in other words than at calibration")
    if calibration.answers not in (None, group.answers):
        now = group.answers or "none"
        then = calibration.answers or "none"
        clauses.append(f"the preset of answers, {now}, differs from {then} at calibration")
    for name, agent in group.agents.items():
        if name in calibration.agents:
            clauses += _differences_of(name, agent, calibration.agents[name])
    return clauses


def hold_to_group(policy: _Policy, group: AskedGroup) -> tuple[_Policy, list[str]]:
    """Returns the policy for a group, and in what the group differs from what was calibrated.

    A `CalibratedPolicy` is replaced by one whose decisions name the differences, and then claim no risk.
    """
    if isinstance(policy, FixedRounds):
        held, clauses = hold_to_group(policy.then, group)
        return type(policy)(policy.n, then=held), clauses
    if not isinstance(policy, CalibratedPolicy):
        return policy, []
    clauses = differences(policy.calibration, group)
    return policy.of_group(clauses), clauses


def _differences_of(name: str, now: AskedAgent, then: CalibratedAgent) -> Iterator[str]:
    model = without_place(now.model or "")
    former = without_place(then.model or "")
    if model and former and model != former:
        yield f"the model of {name}, {model}, differs from {former} at calibration"
    if _differ(now.temperature, then.temperature):
        yield f"the temperature of {name}, {now.temperature:g}, differs from {then.temperature:g} at calibration"
    if _differ(now.system_prompt, then.system_prompt):
        yield f"the system prompt of {name} differs from that at calibration"
    if _differ(now.stated_confidence, then.stated_confidence):
        is_asked = "is" if now.stated_confidence else "is not"
        was_asked = "was" if then.stated_confidence else "was not"
        yield f"{name} {is_asked} asked for its confidence, and {was_asked} at calibration"
    if _differ(now.n_samples, then.n_samples):
        yield f"{name} is asked for {now.n_samples} responses, and was for {then.n_samples} at calibration"


def _differ(now: object, then: object) -> bool:
    """Returns whether two values differ, where both are known."""
    return now is not None and then is not None and now != then


def _shares(weights: Mapping[str, float], names: Iterable[str]) -> str:
    """Returns the named agents' shares of their weights, 1 for those without, in words."""
    weight_of = {name: weights.get(name, 1.0) for name in sorted(names)}
    total = sum(weight_of.values())
    shares: list[str] = []
    for name, weight in weight_of.items():
        share = weight / total if total else 0.0
        shares.append(f"{name} {share:.4g}")
    return ", ".join(shares)
