"""Owns `answer_judge`: what judges long answers in place of the policy, and the policy that settles its judgement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from coe_agents.decision.data import ClaimedAnswer
from coe_agents.policy import Decision, Measurement
from coe_agents.types import Action, Response


class AnswerJudge(Protocol):
    """What judges answers in texts in place of the policy, as `coe_agents.claims.Claims` does, claim by claim."""

    def decide(
        self, questions: Sequence[Sequence[Response]], *, weights: Mapping[str, float] | None = None
    ) -> Sequence[ClaimedAnswer]:
        """Returns the answer that is given to each question: the claims of its responses that may be given."""
        ...


@dataclass(frozen=True, slots=True)
class GivenClaims:
    """The policy of a turn whose answer was judged claim by claim: it gives the claims that are left.

    What the clusters are plays no part.
    """

    claimed: ClaimedAnswer

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the answer that is left; abstains where nothing is. No tie of clusters forbids it."""
        answer = self.claimed["answer"]
        reason = self.claimed["reason"]
        action: Action = "abstain" if answer is None else "answer"
        return Decision(action, answer, reason, trusted_answer=True, cause="claims")
