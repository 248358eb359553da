"""Owns the node that has a long answer judged, claim by claim."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig

from coe_agents.graph.answer_judge import AnswerJudge
from coe_agents.graph.context import RunSettings
from coe_agents.graph.nodes.cluster import reraise
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.state import CoEState
from coe_agents.types import Response, end_of


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
