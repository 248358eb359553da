"""Owns `FalseConsensusGuard`: an agreement that came of showing the agents what to agree on is none."""

from itertools import takewhile

from coe_agents.policy.base import Decision, check_action
from coe_agents.policy.measurement import Measurement
from coe_agents.types import Action


class FalseConsensusGuard:
    """Refuses a consensus that is conformity alone; passes on everything else. A link of a `PolicyChain`.

    Conformity alone: the regime is "consensus" now, it was so in no round before the first debate, and in debates a
    larger share of the agents than `max_conformity` gave way to the leading answer. The regime is by the thresholds of
    the chain; a `ThresholdPolicy` after the guard that answers outside "consensus" too is not held back there.

    Args:
        max_conformity: The share of agents in [0, 1] up to which giving way counts as being convinced; 0 refuses any.
        otherwise: "abstain", "escalate" or "another_round".

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(self, *, max_conformity: float, otherwise: Action = "abstain") -> None:
        if not 0 <= max_conformity <= 1:
            raise ValueError(
                f'"max_conformity" of FalseConsensusGuard must be a share in [0, 1]; {max_conformity!r} came. '
                "0.5 lets half of the agents change to the leading answer"
            )
        self.max_conformity = max_conformity
        self.otherwise = check_action(otherwise, where='"otherwise" of FalseConsensusGuard')
        if otherwise == "answer":
            raise ValueError(
                '"otherwise" of FalseConsensusGuard must be another action than "answer"; "answer" came. '
                "To answer all the same, leave the guard out"
            )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision | None:
        """Returns `otherwise` where the agreement is conformity alone, else None."""
        conformity = measurement.conformity
        if measurement.regime != "consensus" or conformity is None or conformity <= self.max_conformity:
            return None
        independent = takewhile(lambda data: not data["adopted"], measurement.history)
        if any(data["regime"] == "consensus" for data in independent):
            return None
        reason = (
            f"false consensus: {conformity:.0%} of the agents gave way to the leading answer in a debate, more than "
            f"{self.max_conformity:.0%}, and they did not agree before (CoE {measurement.coe:.3f} now)"
        )
        return Decision(self.otherwise, None, reason)

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether there was no debate, where it passes whatever comes."""
        return measurement.conformity is None

    def __repr__(self) -> str:
        return f"FalseConsensusGuard(max_conformity={self.max_conformity!r}, otherwise={self.otherwise!r})"
