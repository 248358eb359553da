"""Owns `PolicyChain`: policies one after the other, the first that decides wins."""

import copy
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Protocol, Self

from coe_agents._plurals import quantity
from coe_agents.checks import instance, require
from coe_agents.policy.base import (
    Decision,
    ReachableRegimes,
    SettlingPolicy,
    TunablePolicy,
    regime_thresholds,
    without_tie,
)
from coe_agents.policy.measurement import Measurement
from coe_agents.types import Regime


class PassingPolicy(Protocol):
    """A link of a `PolicyChain`: a policy that may return None, which leaves the decision to the next one."""

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision | None:
        """Returns the decision, or None to pass."""
        ...


class PolicyChain:
    """Asks its policies in turn; the first decision counts. Where all pass, it abstains.

    It does not answer a tie: the policy that would answer takes its action `otherwise` instead. The regime is that of
    the first policy that has thresholds (`RegimeThresholds`).

    Args:
        policies: At least one.

    Raises:
        ValueError: If there is no policy.
        TypeError: If a policy has only one of the two thresholds.

    Example:
        >>> from coe_agents.policy import FalseConsensusGuard, ThresholdPolicy
        >>> PolicyChain(FalseConsensusGuard(max_conformity=0.5), ThresholdPolicy(0.6)).policies[0]
        FalseConsensusGuard(max_conformity=0.5, otherwise='abstain')
    """

    def __init__(self, *policies: PassingPolicy) -> None:
        require(bool(policies), '"policies" of PolicyChain must hold at least one', [], "Pass them in order")
        self.policies: Sequence[PassingPolicy] = policies
        self.aleatoric_threshold, self.epistemic_threshold = regime_thresholds(*policies)

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the first decision.

        Raises:
            TypeError: If a policy returns something else.
        """
        for policy in self.policies:
            decision: object = policy.decide(measurement, round=round, max_rounds=max_rounds)
            if isinstance(decision, Decision):
                return without_tie(decision, measurement, policy)
            where, advice = (
                f'what "decide" of {type(policy).__name__} returns',
                "Return Decision(action, answer, reason)",
            )
            instance(decision, NoneType, where, what="a Decision, or None to pass", advice=advice)
        return Decision("abstain", None, f"none of {quantity(len(self.policies), 'policy', 'policies')} decided")

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether each policy is settled, so that none before the deciding one will decide otherwise."""
        return all(isinstance(policy, SettlingPolicy) and policy.is_settled(measurement) for policy in self.policies)

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Those of all its policies."""
        own = [name for policy in self.policies if isinstance(policy, TunablePolicy) for name in policy.thresholds]
        return tuple(dict.fromkeys(own))

    def with_thresholds(self, thresholds: Mapping[str, float]) -> Self:
        """Returns the chain with other values of some thresholds, in each policy that has them."""
        chain = copy.copy(self)
        chain.policies = [_tune(policy, thresholds) for policy in self.policies]
        chain.aleatoric_threshold = thresholds.get("aleatoric_threshold", self.aleatoric_threshold)
        chain.epistemic_threshold = thresholds.get("epistemic_threshold", self.epistemic_threshold)
        return chain

    def unreachable(self, *, n_agents: int) -> tuple[Regime, ...]:
        """Returns the regimes that one of the policies can never be in with `n_agents`."""
        knowing = (policy for policy in self.policies if isinstance(policy, ReachableRegimes))
        return tuple(dict.fromkeys(each for policy in knowing for each in policy.unreachable(n_agents=n_agents)))

    def __repr__(self) -> str:
        return f"PolicyChain({', '.join(map(repr, self.policies))})"


def _tune(policy: PassingPolicy, thresholds: Mapping[str, float]) -> PassingPolicy:
    own = policy.thresholds if isinstance(policy, TunablePolicy) else ()
    changed = {name: value for name, value in thresholds.items() if name in own}
    return policy.with_thresholds(changed) if changed and isinstance(policy, TunablePolicy) else policy
