"""Owns the node that ends a run: the decision as data and as a message, and the decided case for `on_decision`."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from coe_agents._steps import Steps
from coe_agents.actions.canonical import read_action
from coe_agents.actions.structured import ANSWER
from coe_agents.clustering.refusals import response_text
from coe_agents.decision.case import DecidedCase
from coe_agents.decision.group_decision import create_decision
from coe_agents.graph.on_decision import OnDecision, pass_on
from coe_agents.graph.runnables import BriefNode, TwoForms, steps_node
from coe_agents.graph.state import CoEState, new_responses
from coe_agents.graph.withheld import withheld_message
from coe_agents.rounds.trajectory import conformity
from coe_agents.types import End, Response, end_of, usable


def finish(state: CoEState) -> dict[str, Any]:
    """Returns the decision, and a message with the answer, the calls to run, or the refusal."""
    settled = state["settled"]
    measured = state["measured"] or {}
    calls = None
    if settled["action"] == "answer":
        calls = _calls_of(state, measured, settled["answer"])
    if calls and calls[0]["name"] == ANSWER:
        # a structured answer was compared as a call, and is given as JSON
        settled = {**settled, "answer": _structured(state, settled["answer"], calls[0]["args"])}
        measured = {**measured, "answer_kind": "answer"}
        calls = None
    decision = create_decision(
        settled,
        measured,
        choices=state["turn"]["choices"],
        answers=state["turn"]["answers"],
        calls=calls,
        failed_agents=_failures(state),
        spent=state["usages"],
        trajectory=state["trajectory"],
        conformity=conformity(state["trajectory"]),
        claimed=state.get("claimed"),
        answer_end=_end_of_answer(state, settled["answer"]),
    )
    if settled["action"] == "answer":
        message = AIMessage(
            "" if calls else settled["answer"],
            tool_calls=calls or [],
            response_metadata={"decision": decision},
        )
    else:
        message = withheld_message(settled["action"], settled["reason"], decision=decision)
    return {"decision": decision, "messages": [message]}


def _failures(state: CoEState) -> dict[str, str]:
    """Returns why each agent failed in the last round.

    Beside a reply that its provider failed, any other reply counts; beside an invalid one, a proposal.
    """
    failed = list[Response]()
    for row in state["responses"]:
        if row["error"] is not None and row["round"] == state["round"]:
            failed.append(row)
    if not failed:
        return {}

    answering: set[str] = set()
    proposing: set[str] = set()
    for row in new_responses(state):
        answering.add(row["agent"])
        if row.get("calls") is not None:
            proposing.add(row["agent"])

    failures: dict[str, str] = {}
    for row in failed:
        counting = answering if row.get("fault") == "failed" else proposing
        if row["agent"] not in counting:
            failures[row["agent"]] = str(row["error"])
    return failures


def _end_of_answer(state: CoEState, answer: str | None) -> End | None:
    """Returns how the responses that are the answer ended, where none of them is whole; else None."""
    ends: set[End] = set()
    for row in usable(state["responses"]):
        if answer in (response_text(row).strip(), row["text"].strip()):
            end = end_of(row)
            if end == "whole":
                return None
            ends.add(end)
    return min(ends, default=None)


def _structured(state: CoEState, answer: str, written: Mapping[str, Any]) -> str:
    """Returns a structured answer as JSON, in the form in which it was compared and the order of its schema."""
    compared = read_action(answer)
    args = compared[0]["args"] if compared else written
    schema = state["turn"].get("answer_schema") or {}
    ordered = {}
    for name in schema.get("properties") or ():
        if name in args:
            ordered[name] = args[name]
    # fields that the schema does not name come last
    for name in args:
        ordered.setdefault(name, args[name])
    return json.dumps(ordered, ensure_ascii=False)


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
        for row in usable(state["responses"]):
            if row.get("calls") == [] and row["text"].strip() == answer:
                return []  # it was shown tools, and calls none
        return None
    return [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in calls]


def finish_node(on_decision: OnDecision | None) -> TwoForms:
    """Returns the node that ends a run, and passes the case on if somebody is to be told."""
    if on_decision is None:
        return BriefNode(finish)

    def steps(state: CoEState, config: RunnableConfig) -> Steps[dict[str, Any]]:
        update = finish(state)
        case = DecidedCase(
            id=_id_of_turn(state, config),
            question=state["turn"]["question"],
            conversation=state["turn"]["conversation"],
            decision=update["decision"],
            leading=(state["measured"] or {}).get("answer"),
            responses=state["responses"],
            labels=state["labels"],
        )
        yield from pass_on(case, on_decision)
        return update

    return steps_node(steps, name="finish")


def _id_of_turn(state: CoEState, config: RunnableConfig) -> str:
    """Returns an id: the same if a turn is resumed or replayed, others for other gates and edited questions.

    Without a thread nothing is resumed, and clients may repeat the ids of messages: each turn has a random one.
    """
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    if thread is None:
        return uuid.uuid4().hex
    # "gate:TASK|finish:TASK": the tasks differ from run to run
    *gates, _ = configurable.get("checkpoint_ns", "").split("|")
    names_of_gates = [gate.partition(":")[0] for gate in gates]
    turn = state["turn"]
    name = "\n".join([str(thread), *names_of_gates, str(turn["last_seen"]), turn["question"]])
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
