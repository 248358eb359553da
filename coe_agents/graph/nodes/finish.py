"""Owns the end of a run: the decision as data, and as a message."""

from typing import Any

from langchain_core.messages import AIMessage

from coe_agents.graph.state import AgentData, CoEState, DecisionData
from coe_agents.rounds import conformity
from coe_agents.types import Sampling, Usage

WITHHELD = {"abstain": "I will not answer this: ", "escalate": "This needs someone else: "}
"""How the message of a run begins that gives no answer."""


def finish(state: CoEState) -> dict[str, Any]:
    """Returns the decision, and a message with the answer or the refusal."""
    verdict, measured = state["verdict"], state["measured"] or {}
    tokens: dict[str, Usage] = {}
    for spent in state["usages"]:
        used = tokens.setdefault(spent["agent"], Usage(input_tokens=0, output_tokens=0))
        used["input_tokens"] += spent["usage"]["input_tokens"]
        used["output_tokens"] += spent["usage"]["output_tokens"]
    decision = DecisionData(
        action=verdict["action"],
        answer=verdict["answer"],
        reason=verdict["reason"],
        decided_by=verdict.get("decided_by", "group"),
        choices=state["allowed"],
        regime=verdict.get("regime"),
        coe=measured.get("coe"),
        aleatoric=measured.get("aleatoric"),
        epistemic=measured.get("epistemic"),
        divergence=measured.get("divergence"),
        interval=measured.get("interval"),
        coordinated_coe=measured.get("coordinated_coe"),
        surprisal=measured.get("surprisal"),
        tied=measured.get("tied", []),
        support=dict(zip(measured.get("representatives", ()), measured.get("support", ()), strict=True)),
        n_rounds=state["round"] + 1,
        failed_agents={
            response["agent"]: response["error"]
            for response in state["responses"]
            if response["error"] is not None and response["round"] == state["round"]
        },
        agents={
            name: AgentData(
                n_responses=said["n_responses"],
                weighting=said["weighting"],
                entropy=said["entropy"],
                distribution=said["distribution"],
                sampling=_samplings(state, name),
            )
            for name, said in measured.get("agents", {}).items()
        },
        tokens=tokens,
        trajectory=state["trajectory"],
        conformity=conformity(state["trajectory"]),
    )
    text = verdict["answer"] if verdict["action"] == "answer" else f"{WITHHELD[verdict['action']]}{verdict['reason']}."
    return {"decision": decision, "messages": [AIMessage(text, response_metadata={"decision": decision})]}


def _samplings(state: CoEState, agent: str) -> list[Sampling]:
    records = [spent["sampling"] for spent in state["usages"] if spent["agent"] == agent]
    return sorted((record for record in records if record is not None), key=lambda record: record["round"])
