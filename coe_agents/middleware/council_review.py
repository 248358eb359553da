"""Owns the decision of a person on a proposal that a council withholds: what is shown, and what follows from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from typing_extensions import TypedDict

from coe_agents.actions.canonical import canonical_action
from coe_agents.actions.proposals import check_call
from coe_agents.decision.case import DecidedCase
from coe_agents.graph.people import ActionRequest, Edit, Reject, Review, ask_for_decisions, fence
from coe_agents.middleware.deliberation import DRIVER, CouncilDecision, plain_calls
from coe_agents.middleware.guard import is_same_call
from coe_agents.middleware.marks import NOT_SHARED, asked_again, is_mark, make_mark
from coe_agents.middleware.reviewer import structured_text
from coe_agents.middleware.verdict import call_as_json, last_reply
from coe_agents.middleware.withheld import (
    MAX_NAME,
    contested_in_words,
    not_run,
    withheld_answer,
    without_text,
)
from coe_agents.text import for_log, for_prompt, quotation
from coe_agents.types import Response

logger = logging.getLogger(__name__)

ANSWER = "answer"
"""The action by which a person is asked about a text; it is no tool."""
_VALUE = 300
"""The most characters of a value that somebody proposed; the call to decide on is shown whole."""


class PendingProposal(TypedDict):
    """A withheld proposal on which a person is to decide.

    Attributes:
        messages: What the model call returned: the message, and the reply to the call of a structured answer.
        structured_response: The structured answer; None without one.
        outputs: The names of the tools by which a structured answer is given.
        tools: The schemas of the tools that it calls.
        action_key: The key of the action; see `new_action`.
        forms: Those of its calls, by their ids; see `tool_forms`.
        case: What is passed on once the person has decided; None where nobody is told.
        is_asked_anew: Whether the person is asked about it again, since its mark was of another secret.
        mark: By which the council knows that it wrote this; see `make_mark`.
    """

    messages: list[BaseMessage]
    structured_response: Any
    outputs: list[str]
    tools: list[dict[str, Any]]
    decision: CouncilDecision
    action_key: str
    forms: dict[str, list[str]]
    case: DecidedCase | None
    is_asked_anew: bool
    mark: str


@dataclass(frozen=True, slots=True)
class ReviewedProposal:
    """What follows from a person's decisions.

    Attributes:
        update: Of the agent's state: messages, the structured answer, where the agent continues.
        calls: The calls that may run, as they may run.
    """

    update: dict[str, Any]
    decision: CouncilDecision
    calls: Sequence[ToolCall]
    message_id: str | None


def apply_decisions(pending: PendingProposal, decided: Sequence[Review]) -> ReviewedProposal:
    """Returns what follows from the decisions on a pending proposal; the message is the same but for edits."""
    message = _proposed(pending)
    if not message.tool_calls:
        return _apply_to_text(pending, message, decided[0])

    calls = list[ToolCall]()
    going = list[ToolCall]()
    replies = list[ToolMessage]()
    for call, review in zip(message.tool_calls, decided, strict=True):
        now = call
        if isinstance(review, Edit):
            now = {**call, "args": review.edited_action.args}
        calls.append(now)
        if isinstance(review, Reject):
            replies.append(not_run(call, _rejected(review.message)))
        else:
            going.append(now)
    if not all(map(is_same_call, calls, message.tool_calls)):
        message = message.model_copy(update={"tool_calls": calls})
    if not going:
        message = message.model_copy(update={"content": without_text(message.content)})

    rejected = {reply.tool_call_id for reply in replies}
    update: dict[str, Any] = {"messages": [message]}
    for reply in pending["messages"]:
        # the reply to the call of a structured answer, unless that was rejected
        if isinstance(reply, ToolMessage) and reply.tool_call_id not in rejected:
            update["messages"].append(reply)
            if pending["structured_response"] is not None:
                update["structured_response"] = pending["structured_response"]
    update["messages"] += replies
    if going:
        decision = _approved(pending, "a person approved it", going)
    else:
        update["jump_to"] = "model"
        decision = _decided_by_person(pending, "a person rejected it")
    return ReviewedProposal(update, decision, going, message.id)


def _rejected(why: str) -> str:
    if not why:
        return "a person rejected it"
    return f"a person rejected it: {why}"


def _decided_by_person(pending: PendingProposal, what: str) -> CouncilDecision:
    # what others proposed is withheld: the person was shown it
    reason = f"{what}; {pending['decision']['reason']}"
    return {
        **pending["decision"],
        "cause": "person",
        "decided_by": "person",
        "contested": None,
        "reason": reason,
    }


def _approved(pending: PendingProposal, what: str, calls: Sequence[ToolCall]) -> CouncilDecision:
    return {
        **_decided_by_person(pending, what),
        "action": "answer",
        "proposer": DRIVER,
        "calls": plain_calls(calls),
    }


def _apply_to_text(
    pending: PendingProposal, message: AIMessage, decided: Review
) -> ReviewedProposal:
    if isinstance(decided, Reject):
        rejected = _decided_by_person(pending, "a person rejected it")
        rejected["reason"] = _rejected(for_log(decided.message))
        messages = [withheld_answer(rejected)]
        return ReviewedProposal({"messages": messages, "jump_to": "end"}, rejected, (), None)

    update: dict[str, Any] = {"messages": pending["messages"]}
    what = "a person approved it"
    if isinstance(decided, Edit):
        what = "a person wrote it"
        text = decided.edited_action.args["text"]
        update["messages"] = [message.model_copy(update={"content": text})]
    elif pending["structured_response"] is not None:
        update["structured_response"] = pending["structured_response"]
    return ReviewedProposal(update, _approved(pending, what, ()), (), message.id)


def canonical_among(responses: Sequence[Response], calls: Sequence[Mapping[str, Any]]) -> str:
    """Returns the canonical form of calls: that of whoever proposed them, else as a person wrote them."""
    plain = [{"name": call["name"], "args": call["args"]} for call in calls]
    written = canonical_action(plain)
    for row in responses:
        if row["answer"] is not None and canonical_action(row["calls"] or []) == written:
            return row["answer"]
    return written


def take_back(reviewed: ReviewedProposal, why_not: str) -> ReviewedProposal:
    """Returns what follows if another reply to the same request came first: nothing runs because of this one."""
    messages = [*reviewed.update["messages"]]
    for call in reviewed.calls:
        messages.append(not_run(call, why_not))
    update = {"messages": messages, "jump_to": "model"}
    decision: CouncilDecision = {
        **reviewed.decision,
        "action": "abstain",
        "reason": f"another reply decided on it already; {reviewed.decision['reason']}",
        "calls": None,
    }
    return ReviewedProposal(update, decision, (), reviewed.message_id)


def give_up(pending: PendingProposal) -> ReviewedProposal:
    """Returns what follows where no reply can count: each process draws a secret that no other one knows."""
    logger.warning("the gate is closed: %s", NOT_SHARED)
    decision: CouncilDecision = {
        **pending["decision"],
        "cause": "unavailable",
        "reason": NOT_SHARED,
        "contested": None,
    }
    update = {"messages": [withheld_answer(decision)], "jump_to": "end"}
    return ReviewedProposal(update, decision, (), None)


def mark_pending(pending: PendingProposal, gate: str) -> PendingProposal:
    """Returns a proposal under the mark of a council; see `make_mark`."""
    contents: dict[str, Any] = {**pending}
    del contents["mark"]
    contents["messages"] = [message.model_dump(mode="json") for message in pending["messages"]]
    contents["structured"] = structured_text(contents.pop("structured_response"))
    message = _proposed(pending)
    mark = make_mark("waits", gate, message.id, message.tool_calls, contents)
    return {**pending, "mark": mark}


def _proposed(pending: PendingProposal) -> AIMessage:
    _, message = last_reply(pending["messages"])
    return message


def is_own(pending: PendingProposal, gate: str) -> bool:
    """Returns whether the council of this name wrote this; what is replied may else be about another proposal."""
    return is_mark(pending["mark"], mark_pending(pending, gate)["mark"])


def ask_about_proposal(pending: PendingProposal) -> list[Review]:
    """Interrupts the run until the reply holds a fitting decision on each call, or on the text."""
    message = _proposed(pending)
    actions = list[ActionRequest]()
    for call in message.tool_calls:
        actions.append(_describe(call["name"], call["args"], pending))
    is_text = not actions
    if is_text:
        actions.append(_describe(ANSWER, {"text": str(message.text)}, pending))

    def check(action: ActionRequest, decision: Review) -> None:
        if isinstance(decision, Edit):
            _check_edit(action.name, decision, pending, is_text=is_text)

    return ask_for_decisions(actions, check)


def _check_edit(name: str, decision: Edit, pending: PendingProposal, *, is_text: bool) -> None:
    action = decision.edited_action
    if action.name != name:
        raise ValueError(
            f'"edited_action" must have the name "{name}"; got {quotation(action.name)}. Reject the call instead'
        )
    if is_text:
        if set(action.args) != {"text"} or not isinstance(action.args["text"], str):
            raise ValueError(
                '"args" of an edited answer must be {"text": "..."}; got others. Give "text" alone, a text'
            )
        return
    check_call({"name": name, "args": action.args}, pending["tools"])


def _describe(name: str, args: dict[str, Any], pending: PendingProposal) -> ActionRequest:
    """Returns what a person is asked, as Markdown in which no text of a model is rendered; first what is contested."""
    decision = pending["decision"]
    parts = list[str]()
    if pending.get("is_asked_anew"):
        parts.append(fence(asked_again()))
    about = contested_in_words(decision["contested"])
    if about:
        lines = [f"The models do not agree on {about}.", *_candidates(decision["contested"])]
        parts.append(fence("\n".join(lines)))
    parts += ["To decide:", fence(f"{name} {call_as_json(args)}"), fence(decision["reason"])]
    if decision["support"]:
        shares = []
        for agent, share in decision["support"].items():
            shares.append(f"{for_prompt(agent)}: {share:.0%}")
        parts += ["How much the others support what each proposed:", fence("\n".join(shares))]
    if decision["failed_agents"]:
        reasons = []
        for agent, why in decision["failed_agents"].items():
            reasons.append(f"{for_prompt(agent)}: {for_prompt(why)}")
        parts += ["No proposal:", fence("\n".join(reasons))]
    allowed = ["approve", "edit", "reject"]
    if name in pending["outputs"]:
        allowed.remove("edit")
    return ActionRequest(name, args, "\n\n".join(parts), allowed)


def _candidates(contested: Mapping[str, Any] | None) -> list[str]:
    """Returns a line for each value that was proposed, in the order of the contested arguments."""
    lines = []
    candidates = (contested or {}).get("candidates") or {}
    for path, values in candidates.items():
        name = for_prompt(path, limit=2 * MAX_NAME)
        for candidate in values:
            value = for_prompt(call_as_json(candidate["value"]), limit=_VALUE)
            agents = ", ".join(map(for_prompt, candidate["agents"]))
            lines.append(f"{name}: {value} ({agents})")
    return lines
