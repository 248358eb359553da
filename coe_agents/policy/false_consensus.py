"""Owns `FalseConsensusGuard`: it refuses an agreement that results only from showing the agents the answers."""

from itertools import takewhile

from coe_agents.checks import share
from coe_agents.policy.base import Decision, check_otherwise
from coe_agents.policy.measurement import Measurement
from coe_agents.types import Action


class FalseConsensusGuard:
    """Refuses a consensus by conformity alone; passes otherwise. A link of a `PolicyChain`.

    A consensus is by conformity alone if the regime is "consensus" now, was not in any round before the first debate,
    and more than a share `max_conformity` of the agents changed to the leading answer in debates. The regime is that of
    the chain's thresholds; a `ThresholdPolicy` after the guard may still answer outside "consensus".

    Args:
        max_conformity: The largest share of agents in [0, 1] that may have changed so; 0 allows none.
        otherwise: "abstain", "escalate" or "another_round".

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(self, *, max_conformity: float, otherwise: Action = "abstain") -> None:
        self.max_conformity = share(
            max_conformity,
            '"max_conformity" of FalseConsensusGuard',
            advice="0.5 lets half of the agents change to the leading answer",
        )
        self.otherwise = check_otherwise(
            otherwise, policy="FalseConsensusGuard", instead="To answer anyway, omit the guard"
        )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision | None:
        """Returns `otherwise` where the agreement is by conformity alone, else None."""
        conformity = measurement.conformity
        if measurement.regime != "consensus" or conformity is None or conformity <= self.max_conformity:
            return None
        independent = takewhile(lambda data: not data["adopted"], measurement.history)
        if any(data["regime"] == "consensus" for data in independent):
            return None
        reason = (
            f"false consensus: {conformity:.0%} of the agents changed to the leading answer in a debate, more than "
            f"{self.max_conformity:.0%}, and they did not agree before (CoE {measurement.coe:.3f} now)"
        )
        return Decision(self.otherwise, None, reason)

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether there was no debate: the guard then passes whatever further responses say."""
        return measurement.conformity is None

    def __repr__(self) -> str:
        return f"FalseConsensusGuard(max_conformity={self.max_conformity!r}, otherwise={self.otherwise!r})"
