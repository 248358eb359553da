"""Owns the node that judges a long answer claim by claim, and the policy by which its result is settled."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig

from coe_agents.decision.data import ClaimedAnswer
from coe_agents.graph.context import RunSettings
from coe_agents.graph.nodes.cluster import reraise
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.state import CoEState
from coe_agents.policy import Decision, Measurement
from coe_agents.types import Action, Response, end_of


class AnswerJudge(Protocol):
    """What judges answers in texts in place of the policy, as `coe_agents.claims.Claims` does, claim by claim."""

    def decide(
        self, questions: Sequence[Sequence[Response]], *, weights: Mapping[str, float] | None = None
    ) -> Sequence[ClaimedAnswer]:
        """Returns what is given of the responses to each question."""
        ...


def claims_node(claims: AnswerJudge, settings: RunSettings) -> TwoForms:
    """Returns the node that judges the responses that count; None where the turn asks for no text of its own."""

    def judge(state: CoEState, _: RunnableConfig) -> dict[str, Any]:
        turn = state["turn"]
        forms = (turn["choices"], turn["tools"], turn.get("answer_schema"))
        if turn["is_review"] or any(form is not None for form in forms):
            return {"claimed": None}

        # those that have a cluster; failures stand behind them
        n_counted = len(state["labels"])
        responses: list[Response] = []
        for row in state["responses"][:n_counted]:
            if end_of(row) == "filtered":
                responses.append({**row, "text": ""})
            else:
                responses.append(row)
        weights = settings.of(state).weights
        try:
            [claimed] = claims.decide([responses], weights=weights)
        except Exception as error:
            reraise(error, claims, what="claims could not be judged")
        return {"claimed": claimed}

    async def ajudge(state: CoEState, config: RunnableConfig) -> dict[str, Any]:
        return await asyncio.to_thread(judge, state, config)

    return TwoForms(judge, ajudge, name="claims")


@dataclass(frozen=True, slots=True)
class GivenClaims:
    """The policy of a turn whose answer was judged claim by claim: it gives what is left, whatever the clusters are."""

    claimed: ClaimedAnswer

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the answer that is left; abstains where nothing is. No tie of clusters forbids it."""
        answer = self.claimed["answer"]
        reason = self.claimed["reason"]
        action: Action = "abstain" if answer is None else "answer"
        return Decision(action, answer, reason, trusted_answer=True, cause="claims")
