"""Owns the end of a run: the decision as data, and as a message."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from coe_agents.actions.canonical import read_action
from coe_agents.actions.structured import ANSWER
from coe_agents.clustering.refusals import response_text
from coe_agents.decision.group_decision import create_decision
from coe_agents.graph.round_state import new_responses
from coe_agents.graph.state import CoEState
from coe_agents.rounds.trajectory import conformity
from coe_agents.types import WITHHELD_MARK, End, end_of, usable

WITHHELD = {"abstain": "I will not answer this: ", "escalate": "This needs someone else: "}
"""How the message of a run begins that gives no answer."""


def finish(state: CoEState) -> dict[str, Any]:
    """Returns the decision, and a message with the answer, the calls to run, or the refusal."""
    verdict, measured = state["verdict"], state["measured"] or {}
    calls = _calls_of(state, measured, verdict["answer"]) if verdict["action"] == "answer" else None
    if calls and calls[0]["name"] == ANSWER:
        verdict, calls = (
            {**verdict, "answer": _structured(state, verdict["answer"], calls[0]["args"])},
            None,
        )
        measured = {**measured, "answer_kind": "answer"}
    failed = [
        row
        for row in state["responses"]
        if row["error"] is not None and row["round"] == state["round"]
    ]
    new = new_responses(state) if failed else []
    proposing = {
        row["agent"] for row in new if row.get("calls") is not None
    }  # one of its proposals was invalid
    answering = {row["agent"] for row in new}
    failures = dict[str, str]()
    for row in failed:
        # beside a reply that its provider failed, any other counts; beside an invalid one, a proposal
        answered = answering if row.get("fault") == "failed" else proposing
        if row["agent"] not in answered:
            failures[row["agent"]] = row["error"] or ""
    decision = create_decision(
        verdict,
        measured,
        choices=state["turn"]["choices"],
        answers=state["turn"].get("answers"),
        calls=calls,
        failed_agents=failures,
        spent=state["usages"],
        trajectory=state["trajectory"],
        conformity=conformity(state["trajectory"]),
        claimed=state.get("claimed"),
        answer_end=_end_of_answer(state, verdict["answer"]),
    )
    if verdict["action"] == "answer":
        text = "" if calls else verdict["answer"]
        metadata = {"decision": decision}
        message = AIMessage(text, tool_calls=calls or [], response_metadata=metadata)
    else:
        message = withheld_message(verdict["action"], verdict["reason"], decision=decision)
    return {"decision": decision, "messages": [message]}


def withheld_message(
    action: str, reason: str, *, id: str | None = None, **metadata: Any
) -> AIMessage:
    """Returns the message in place of an answer that is withheld, under the mark by which it is known."""
    text = f"{WITHHELD[action]}{reason}."
    return AIMessage(text, id=id, response_metadata={**metadata, WITHHELD_MARK: True})


def _end_of_answer(state: CoEState, answer: str | None) -> End | None:
    """Returns how the responses that are the answer ended, where none of them is whole; else None."""
    ends = [
        end_of(row)
        for row in usable(state["responses"])
        if answer in (response_text(row).strip(), row["text"].strip())
    ]
    return None if not ends or "whole" in ends else min(ends)


def _structured(state: CoEState, answer: str, written: Mapping[str, Any]) -> str:
    """Returns a structured answer as JSON, in the form in which it was compared and the order of its schema."""
    read = read_action(answer)
    args = read[0]["args"] if read else written
    stated = (state["turn"].get("answer_schema") or {}).get("properties") or ()
    return json.dumps(
        {name: args[name] for name in (*stated, *args) if name in args}, ensure_ascii=False
    )


def _calls_of(
    state: CoEState, measured: Mapping[str, Any], answer: str
) -> list[dict[str, Any]] | None:
    """Returns the calls of the proposal that is the answer, with ids of their own; None where the answer is a text.

    The leading proposal is not looked up by its text: the text of one that calls nothing may read as an action.
    """
    proposals = measured.get("proposals", {})
    calls = proposals.get("writings", {}).get(answer)
    if answer == measured.get("answer"):
        calls = proposals.get("calls")
    if calls is None:
        silent = (row for row in usable(state["responses"]) if row.get("calls") == [])
        return [] if any(row["text"].strip() == answer for row in silent) else None
    return [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in calls]
