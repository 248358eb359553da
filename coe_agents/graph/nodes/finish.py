"""Owns the end of a run: the decision as data, and as a message."""

import uuid
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from coe_agents.graph.rounds import new_responses
from coe_agents.graph.state import AgentData, CoEState, DecisionData
from coe_agents.rounds import conformity
from coe_agents.types import Sampling, Usage, usable

WITHHELD = {"abstain": "I will not answer this: ", "escalate": "This needs someone else: "}
"""How the message of a run begins that gives no answer."""


def finish(state: CoEState) -> dict[str, Any]:
    """Returns the decision, and a message with the answer, the calls to run, or the refusal."""
    verdict, measured = state["verdict"], state["measured"] or {}
    calls = _calls_of(state, measured, verdict["answer"]) if verdict["action"] == "answer" else None
    proposing = {row["agent"] for row in new_responses(state) if row.get("calls") is not None}
    tokens: dict[str, Usage] = {}
    for spent in state["usages"]:
        used = tokens.setdefault(spent["agent"], Usage(input_tokens=0, output_tokens=0))
        used["input_tokens"] += spent["usage"]["input_tokens"]
        used["output_tokens"] += spent["usage"]["output_tokens"]
    samplings: dict[str, list[Sampling]] = {}
    for spent in state["usages"]:
        if spent["sampling"] is not None:
            samplings.setdefault(spent["agent"], []).append(spent["sampling"])
    decision = DecisionData(
        action=verdict["action"],
        answer=verdict["answer"],
        reason=verdict["reason"],
        decided_by=verdict.get("decided_by", "group"),
        choices=state["allowed"],
        answer_kind=measured.get("answer_kind"),
        calls=calls,
        contested=measured.get("contested"),
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
            if response["error"] is not None
            and response["round"] == state["round"]
            and response["agent"] not in proposing  # one of its proposals was invalid
        },
        agents={
            name: AgentData(
                n_responses=said["n_responses"],
                weighting=said["weighting"],
                entropy=said["entropy"],
                distribution=said["distribution"],
                sampling=sorted(samplings.get(name, []), key=lambda record: record["round"]),
            )
            for name, said in measured.get("agents", {}).items()
        },
        tokens=tokens,
        trajectory=state["trajectory"],
        conformity=conformity(state["trajectory"]),
    )
    text = verdict["answer"] if verdict["action"] == "answer" else f"{WITHHELD[verdict['action']]}{verdict['reason']}."
    message = AIMessage("" if calls else text, tool_calls=calls or [], response_metadata={"decision": decision})
    return {"decision": decision, "messages": [message]}


def _calls_of(state: CoEState, measured: Mapping[str, Any], answer: str) -> list[dict[str, Any]] | None:
    """Returns the calls of the proposal that is the answer, with ids of their own; None where the answer is a text.

    The leading proposal is not looked up by its text: the text of one that calls nothing may read as an action.
    """
    calls = measured.get("calls") if answer == measured.get("answer") else measured.get("writings", {}).get(answer)
    if calls is None:
        silent = (row for row in usable(state["responses"]) if row.get("calls") == [])
        return [] if any(row["text"].strip() == answer for row in silent) else None
    return [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in calls]
