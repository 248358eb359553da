"""Owns the decision of a person on the calls that the group is uncertain about: what is shown, and what follows."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain.agents.middleware.types import AgentState
from langchain_core.messages import ToolCall, ToolMessage
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from coe_agents.graph.people import (
    ActionRequest,
    Approve,
    Edit,
    Reject,
    Respond,
    Review,
    ask_for_decisions,
    drop_replies,
    fence,
)
from coe_agents.middleware.driver import Driver
from coe_agents.middleware.marks import NOT_SHARED, asked_again, is_shared
from coe_agents.middleware.open_calls import ProposedCalls
from coe_agents.middleware.reviewer import NOT_RUN
from coe_agents.middleware.verdict import (
    Verdict,
    VerdictOutcome,
    call_as_json,
    in_words,
    mark_verdict,
    verdict_of,
)
from coe_agents.middleware.withheld import not_run
from coe_agents.text import decomposition, for_prompt, visible

logger = logging.getLogger(__name__)

WRITTEN = "a person wrote it"
"""The reason of the verdict on a call that a person edited; it stays "uncertain" until the group has judged it."""
_NO_MARKUP = re.compile(r"""([^\W_]|(?<=[^\W_])_(?=[^\W_])|(?<!www)\.|[ "{}:,;()%'=+>-])*""")
"""A line that Markdown shows as it is, and turns no part of into a link."""


class ReviewState(TypedDict):
    """The state of the steps by which the calls of one message are settled; by the calls' ids.

    Attributes:
        edits: The calls that a person edited, by their place in the message.
        verdicts: The verdict of the group, or a person, on each call.
        answers: What the model is told in a tool's place, where a person rejected the call or answered.
        is_asked_anew: Whether a person is asked again, since a mark was of another secret.
        asks_again: Whether a person replied to something else, so that this message is judged and asked about anew.
        gives_up: Whether the run ends, since no process can know what a person decided in another one.
    """

    edits: dict[str, Any]
    verdicts: dict[str, Verdict]
    answers: dict[str, ToolMessage]
    is_asked_anew: bool
    asks_again: bool
    gives_up: bool


def ask_about_calls(
    proposed: ProposedCalls,
    state: ReviewState,
    gate: str,
    marked: Mapping[str | None, Verdict],
    driver: Driver,
) -> dict[str, Any]:
    """Asks a person about all calls that the group is uncertain about, and returns the update of the decisions.

    Where the mark of a verdict is not the gate's, what was replied so far is not used: it may be about another call.
    This task then ends without a decision, and another one judges and asks: LangGraph gives a reply that names no
    interrupt to whatever its checkpoint asks, so only from a new checkpoint on is it over.
    """
    verdicts = dict(state["verdicts"])
    message_id = proposed.reply.id
    uncertain = list[tuple[ToolCall, Verdict]]()
    for call in proposed.calls:
        verdict = verdicts.get(call["id"] or "")
        if verdict is None or call["id"] in proposed.duplicates:
            continue
        if verdict["outcome"] == "uncertain":
            uncertain.append((call, verdict))
    if not uncertain:
        return {"asks_again": False}

    if not all(call["id"] in marked for call, _ in uncertain):
        if state.get("is_asked_anew") and not is_shared():
            logger.warning("the gate is closed: %s", NOT_SHARED)
            answers = {call["id"] or "": not_run(call, NOT_SHARED) for call in proposed.calls}
            return {"answers": answers, "asks_again": False, "gives_up": True}
        drop_replies()
        return {"asks_again": True}

    def check(_: ActionRequest, decision: Review) -> None:
        if isinstance(decision, Edit):
            driver.check_call(decision.edited_action.name, decision.edited_action.args)

    requests = [_about(call, verdict) for call, verdict in uncertain]
    if state.get("is_asked_anew"):
        notice = fence(asked_again())
        requests = [replace(one, description=f"{notice}\n\n{one.description}") for one in requests]
    decisions = ask_for_decisions(requests, check)
    answers = dict[str, ToolMessage]()
    edits = dict[str, ToolCall]()
    places = {call["id"]: str(place) for place, call in enumerate(proposed.reply.tool_calls)}
    for (call, verdict), decision in zip(uncertain, decisions, strict=True):
        id_ = call["id"] or ""
        now = call
        outcome: VerdictOutcome = "rejected"
        match decision:
            case Edit(edited_action=action):
                outcome = "uncertain"
                why = WRITTEN
                now = {**call, "name": action.name, "args": action.args}
                edits[places[id_]] = now
            case Approve():
                outcome = "approved"
                why = f"a person approved it; {in_words(verdict)}"
            case Reject(message=message):
                why = f"a person rejected it{': ' if message else ''}{message}"
                answers[id_] = not_run(call, why)
            case Respond(message=message):
                why = "a person answered in its place"
                answers[id_] = ToolMessage(
                    message, name=call["name"], tool_call_id=id_, response_metadata={NOT_RUN: True}
                )
        verdicts[id_] = mark_verdict(by_person(verdict, outcome, why), gate, now, message_id)
    return {"verdicts": verdicts, "answers": answers, "edits": edits, "asks_again": False}


def by_person(verdict: Verdict, outcome: VerdictOutcome, why: str) -> Verdict:
    """Returns the verdict as a person decided it."""
    return {**verdict, "outcome": outcome, "decided_by": "person", "cause": "person", "reason": why}


def _about(call: ToolCall, verdict: Verdict) -> ActionRequest:
    """Returns what a person is asked, as Markdown in which no text of a model is rendered."""
    parts = [fence(f"{call['name']} {call_as_json(call['args'])}"), fence(in_words(verdict))]
    coe = verdict["coe"]
    aleatoric = verdict["aleatoric"]
    epistemic = verdict["epistemic"]
    has_quorum = verdict["regime"] is not None  # fewer judges look certain
    if has_quorum and coe is not None and aleatoric is not None and epistemic is not None:
        numbers = decomposition(coe=coe, aleatoric=aleatoric, epistemic=epistemic)
        parts.append(f"CoE {numbers}")
    votes = list[str]()
    for name, vote in verdict["votes"].items():
        shares = []
        for reply, share in sorted(vote.items(), key=lambda pair: -pair[1]):
            shares.append(f"{for_prompt(reply)} {share:.0%}")
        votes.append(f"{for_prompt(name)}: {', '.join(shares)}")
    for name, why in verdict["failed_judges"].items():
        votes.append(f"{for_prompt(name)}: no vote, {for_prompt(why)}")
    if votes:
        parts += ["Votes of the judges:", fence("\n".join(votes))]
    if verdict["question"] is not None:
        parts += ["What they were asked:", fence(verdict["question"])]
    return ActionRequest(call["name"], call["args"], "\n\n".join(parts))


def describe_call(call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:
    """Returns the call and the group's verdict on it: `description` of a `HumanInTheLoopMiddleware`.

    Invisible characters in it are escaped (`coe_agents.text.visible`). A text that Markdown would show otherwise,
    such as an image or a comment in the arguments, is a block of code.
    """
    verdict = verdict_of(state, call)
    about = "the group was not asked" if verdict is None else in_words(verdict)
    lines = [f"{call['name']} {call_as_json(call['args'])}", about]
    text = "\n".join(lines)
    if all(map(_NO_MARKUP.fullmatch, lines)):
        return visible(text)
    return fence(text)
