"""Owns the end of a run: the decision as data, as a message, and to whom it is passed on."""

import hashlib
import json
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from coe_agents._steps import Steps, invoke
from coe_agents.actions.canonical import read_action
from coe_agents.actions.structured import ANSWER
from coe_agents.decision.data import DecidedCase
from coe_agents.decision.group_decision import create_decision
from coe_agents.errors import FAILED_REPLY, describe_error
from coe_agents.graph.round_state import new_responses
from coe_agents.graph.runnables import OneForm, TwoForms, steps_node
from coe_agents.graph.state import CoEState
from coe_agents.policy.measurement import response_text
from coe_agents.rounds.trajectory import conformity
from coe_agents.types import End, end_of, usable

WITHHELD = {"abstain": "I will not answer this: ", "escalate": "This needs someone else: "}
"""How the message of a run begins that gives no answer."""


class DecisionHook(Protocol):
    """What is told of each decision, as `coe_agents.Recording` is."""

    def check(self) -> None:
        """Raises, before any agent is asked, if it cannot do its work in this run."""
        ...

    def steps(self, case: DecidedCase) -> Steps[None]:
        """Does it; an error of its own must not lose the decision."""
        ...


OnDecision = DecisionHook | Callable[[DecidedCase], Any]


class _FunctionHook:
    """A user's function of a decided case, which may be asynchronous."""

    def __init__(self, function: Callable[[DecidedCase], Any]) -> None:
        self._runnable = RunnableLambda(function)
        self._function = function

    def check(self) -> None:
        """Needs nothing."""

    def steps(self, case: DecidedCase) -> Steps[None]:
        try:
            yield invoke(self._runnable, case)
        except Exception as error:  # the decision is worth more than what is done with it
            failure = describe_error(error, self._function)
            warnings.warn(f'"on_decision" failed: {failure}', stacklevel=2)


def decision_hook(on_decision: OnDecision) -> DecisionHook:
    """Returns the hook that is given, or the one of a function; raises TypeError for anything else."""
    if not isinstance(on_decision, type):
        if hasattr(on_decision, "check") and hasattr(on_decision, "steps"):
            return on_decision
        if callable(on_decision):
            return _FunctionHook(on_decision)
    raise TypeError(
        f'"on_decision" must be a Recording or a function of the decided case; got {on_decision!r:.200}. '
        "Pass Recording(), or omit it"
    )


def finish_node(hook: DecisionHook | None) -> TwoForms:
    """Returns the node at the end of a run, which passes the decision to the hook, if there is one."""
    if hook is None:
        return OneForm(finish)

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
        yield from hook.steps(case)
        return update

    return steps_node(steps, name="finish")


def _id_of_turn(state: CoEState, config: RunnableConfig) -> str:
    """Returns the id of a turn: the same if it is resumed or replayed, others for other gates and edited questions.

    Without a thread nothing is resumed, and clients may repeat the ids of messages: each turn has a random id.
    """
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    if thread is None:
        return uuid.uuid4().hex
    *gates, _ = configurable.get("checkpoint_ns", "").split("|")  # "gate:TASK|finish:TASK"
    places = [gate.partition(":")[0] for gate in gates]
    turn = state["turn"]
    name = "\n".join([str(thread), *places, str(turn["last_seen"]), turn["question"]])
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]


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
    failures = {
        row["agent"]: row["error"] or ""
        for row in failed
        if row["agent"] not in (answering if FAILED_REPLY in (row["error"] or "") else proposing)
    }
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
    text = (
        verdict["answer"]
        if verdict["action"] == "answer"
        else f"{WITHHELD[verdict['action']]}{verdict['reason']}."
    )
    message = AIMessage(
        "" if calls else text, tool_calls=calls or [], response_metadata={"decision": decision}
    )
    return {"decision": decision, "messages": [message]}


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
    calls = (
        measured.get("calls")
        if answer == measured.get("answer")
        else measured.get("writings", {}).get(answer)
    )
    if calls is None:
        silent = (row for row in usable(state["responses"]) if row.get("calls") == [])
        return [] if any(row["text"].strip() == answer for row in silent) else None
    return [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in calls]
