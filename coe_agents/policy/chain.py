"""Owns `PolicyChain`: policies one after the other, the first that decides wins."""

from collections.abc import Sequence
from typing import Protocol

from coe_agents.policy.base import Decision, without_tie
from coe_agents.policy.measurement import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Measurement,
)
from coe_agents.types import Regime


class PassingPolicy(Protocol):
    """A link of a `PolicyChain`: a policy, or one that returns None to leave the matter to the next."""

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision | None:
        """Returns the decision, or None to pass."""
        ...


class PolicyChain:
    """Asks its policies in turn; the first decision counts. Where all pass, it abstains.

    A tie is not answered: what the policy that would answer it does otherwise counts then. The regime is that of the
    first policy that has thresholds.

    Args:
        policies: At least one.

    Raises:
        ValueError: If there is none.

    Example:
        >>> from coe_agents.policy import FalseConsensusGuard, ThresholdPolicy
        >>> PolicyChain(FalseConsensusGuard(max_conformity=0.5), ThresholdPolicy(0.6)).policies[0]
        FalseConsensusGuard(max_conformity=0.5, otherwise='abstain')
    """

    def __init__(self, *policies: PassingPolicy) -> None:
        if not policies:
            raise ValueError('"policies" of PolicyChain must hold at least one; none came. Pass them in order')
        self.policies: Sequence[PassingPolicy] = policies
        self.aleatoric_threshold = self._first("aleatoric_threshold", DEFAULT_ALEATORIC_THRESHOLD)
        self.epistemic_threshold = self._first("epistemic_threshold", DEFAULT_EPISTEMIC_THRESHOLD)

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the first decision.

        Raises:
            TypeError: If a policy returns something else.
        """
        for policy in self.policies:
            decision: object = policy.decide(measurement, round=round, max_rounds=max_rounds)
            if isinstance(decision, Decision):
                return without_tie(decision, measurement, policy)
            if decision is not None:
                raise TypeError(
                    '"decide" of a policy in PolicyChain must return a Decision, or None to pass; '
                    f"{type(policy).__name__} returned {type(decision).__name__}. "
                    "Return coe_agents.policy.Decision(action, answer, reason)"
                )
        return Decision("abstain", None, f"none of {len(self.policies)} policies decided")

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether each policy is settled, so that none before the one that decides changes its mind."""
        return all(getattr(policy, "is_settled", _never)(measurement) for policy in self.policies)

    def unreachable(self, *, n_agents: int) -> tuple[Regime, ...]:
        """Returns the regimes that one of the policies can never be in with `n_agents`."""
        found: list[Regime] = []
        for policy in self.policies:
            found += getattr(policy, "unreachable", lambda **_: ())(n_agents=n_agents)
        return tuple(dict.fromkeys(found))

    def __repr__(self) -> str:
        return f"PolicyChain({', '.join(map(repr, self.policies))})"

    def _first(self, threshold: str, default: float) -> float:
        return next(
            (float(getattr(policy, threshold)) for policy in self.policies if hasattr(policy, threshold)), default
        )


def _never(measurement: Measurement) -> bool:
    return False
