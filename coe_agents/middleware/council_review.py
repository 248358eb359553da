"""Owns the decision of a person on a proposal that a council withholds: what is shown, and what follows from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from typing_extensions import TypedDict

from coe_agents.actions.canonical import tool_key
from coe_agents.actions.proposals import check_proposal
from coe_agents.graph.people import ActionRequest, Edit, Reject, Review, ask_for_decisions, fence
from coe_agents.middleware.deliberation import DRIVER, CouncilDecision
from coe_agents.middleware.guard import is_same_call
from coe_agents.middleware.marks import NOT_SHARED, is_mark, make_mark
from coe_agents.middleware.reviewer import structured_text
from coe_agents.middleware.verdict import call_as_json
from coe_agents.middleware.withheld import (
    MAX_NAME,
    contested_in_words,
    not_run,
    refusal,
    without_text,
)
from coe_agents.text import for_log, for_prompt

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
    # what others proposed is withheld: the person was shown it
    decision: CouncilDecision = {
        **pending["decision"],
        "cause": "person",
        "decided_by": "person",
        "contested": None,
    }
    if not message.tool_calls:
        return _apply_to_text(pending, message, decision, decided[0])
    calls, going, replies = list[ToolCall](), list[ToolCall](), list[ToolMessage]()
    for call, one in zip(message.tool_calls, decided, strict=True):
        now: ToolCall = {**call, "args": one.edited_action.args} if isinstance(one, Edit) else call
        calls.append(now)
        if isinstance(one, Reject):
            told = f"a person rejected it{': ' if one.message else ''}{one.message}"
            replies.append(not_run(call, told))
        else:
            going.append(now)
    if not all(map(is_same_call, calls, message.tool_calls)):
        message = message.model_copy(update={"tool_calls": calls})
    if not going:
        message = message.model_copy(update={"content": without_text(message.content)})
    ids = {reply.tool_call_id for reply in replies}
    # the reply to the call of a structured answer, unless that was rejected
    kept = [
        one
        for one in pending["messages"]
        if isinstance(one, ToolMessage) and one.tool_call_id not in ids
    ]
    update: dict[str, Any] = {"messages": [message, *kept, *replies]}
    if kept and pending["structured_response"] is not None:
        update["structured_response"] = pending["structured_response"]
    if not going:
        update["jump_to"] = "model"
        return ReviewedProposal(
            update,
            {**decision, "reason": f"a person rejected it; {decision['reason']}"},
            (),
            message.id,
        )
    shown = [{"name": call["name"], "args": call["args"], "id": call["id"]} for call in going]
    reason = f"a person approved it; {decision['reason']}"
    allowed: CouncilDecision = {
        **decision,
        "action": "answer",
        "reason": reason,
        "proposer": DRIVER,
        "calls": shown,
    }
    return ReviewedProposal(update, allowed, going, message.id)


def _apply_to_text(
    pending: PendingProposal, message: AIMessage, decision: CouncilDecision, decided: Review
) -> ReviewedProposal:
    if isinstance(decided, Reject):
        reason = f"a person rejected it{': ' if decided.message else ''}{for_log(decided.message)}"
        rejected: CouncilDecision = {**decision, "reason": reason}
        return ReviewedProposal(
            {"messages": [refusal(rejected)], "jump_to": "end"}, rejected, (), None
        )
    update: dict[str, Any] = {"messages": pending["messages"]}
    if isinstance(decided, Edit):
        update["messages"] = [
            message.model_copy(update={"content": decided.edited_action.args["text"]})
        ]
    elif pending["structured_response"] is not None:
        update["structured_response"] = pending["structured_response"]
    how = "wrote" if isinstance(decided, Edit) else "approved"
    reason = f"a person {how} it; {decision['reason']}"
    allowed: CouncilDecision = {
        **decision,
        "action": "answer",
        "reason": reason,
        "proposer": DRIVER,
        "calls": [],
    }
    return ReviewedProposal(update, allowed, (), message.id)


def take_back(reviewed: ReviewedProposal, why_not: str) -> ReviewedProposal:
    """Returns what follows if another reply to the same request came first: nothing runs because of this one."""
    replies = [not_run(call, why_not) for call in reviewed.calls]
    update = {
        **reviewed.update,
        "messages": [*reviewed.update["messages"], *replies],
        "jump_to": "model",
    }
    reason = f"another reply decided on it already; {reviewed.decision['reason']}"
    decision: CouncilDecision = {
        **reviewed.decision,
        "action": "abstain",
        "reason": reason,
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
    return ReviewedProposal({"messages": [refusal(decision)], "jump_to": "end"}, decision, (), None)


def mark_pending(pending: PendingProposal, gate: str) -> PendingProposal:
    """Returns a proposal under the mark of a council; see `make_mark`."""
    message = _proposed(pending)
    return {
        **pending,
        "mark": make_mark("waits", gate, message.id, message.tool_calls, _contents(pending)),
    }


def _contents(pending: PendingProposal) -> dict[str, Any]:
    rest = {
        key: value
        for key, value in pending.items()
        if key not in ("mark", "messages", "structured_response")
    }
    messages = [message.model_dump(mode="json") for message in pending["messages"]]
    return {
        **rest,
        "messages": messages,
        "structured": structured_text(pending["structured_response"]),
    }


def _proposed(pending: PendingProposal) -> AIMessage:
    return next(
        message for message in reversed(pending["messages"]) if isinstance(message, AIMessage)
    )


def is_own(pending: PendingProposal, gate: str) -> bool:
    """Returns whether the council of this name wrote this; what is replied may else be about another proposal."""
    return is_mark(pending["mark"], mark_pending(pending, gate)["mark"])


def ask_person(pending: PendingProposal) -> list[Review]:
    """Interrupts the run until the reply holds a fitting decision on each call, or on the text."""
    message = _proposed(pending)
    actions = [(call["name"], call["args"]) for call in message.tool_calls] or [
        (ANSWER, {"text": str(message.text)})
    ]

    def check(action: ActionRequest, decision: Review) -> None:
        if isinstance(decision, Edit):
            _check_edit(action.name, decision, pending, is_text=not message.tool_calls)

    return ask_for_decisions([_asked(name, args, pending) for name, args in actions], check)


def _check_edit(name: str, decision: Edit, pending: PendingProposal, *, is_text: bool) -> None:
    action = decision.edited_action
    if action.name != name:
        raise ValueError(
            f'"edited_action" must have the name "{name}"; got another. Reject the call instead'
        )
    if is_text:
        if set(action.args) != {"text"} or not isinstance(action.args["text"], str):
            raise ValueError('"args" of an edited answer must be {"text": "..."}')
        return
    try:
        # as it is: what the tool's own parser makes of it is not compared with anything
        check_proposal(
            [{"name": name, "args": action.args}],
            tools=pending["tools"],
            parsers={tool_key(name): dict},
        )
    except TypeError as error:
        raise ValueError(str(error)) from error


def _asked(name: str, args: dict[str, Any], pending: PendingProposal) -> ActionRequest:
    """Returns what a person is asked, as Markdown in which no text of a model is rendered; first what is contested."""
    decision, parts = pending["decision"], list[str]()
    if about := contested_in_words(decision["contested"]):
        parts.append(
            fence(
                "\n".join(
                    [f"The models do not agree on {about}.", *_candidates(decision["contested"])]
                )
            )
        )
    parts += ["To decide:", fence(f"{name} {call_as_json(args)}"), fence(decision["reason"])]
    if decision["support"]:
        shares = (
            f"{for_prompt(agent)}: {share:.0%}" for agent, share in decision["support"].items()
        )
        parts += ["How much the others support what each proposed:", fence("\n".join(shares))]
    if failed := decision["failed_agents"]:
        said = "\n".join(f"{for_prompt(agent)}: {for_prompt(why)}" for agent, why in failed.items())
        parts += ["No proposal:", fence(said)]
    allowed = ["approve", "reject"] if name in pending["outputs"] else ["approve", "edit", "reject"]
    return ActionRequest(name, args, "\n\n".join(parts), allowed)


def _candidates(contested: Mapping[str, Any] | None) -> list[str]:
    """Returns a line for each value that was proposed, in the order of the contested arguments."""
    return [
        f"{for_prompt(path, limit=2 * MAX_NAME)}: {for_prompt(call_as_json(one['value']), limit=_VALUE)} "
        f"({', '.join(map(for_prompt, one['agents']))})"
        for path, values in ((contested or {}).get("candidates") or {}).items()
        for one in values
    ]
