"""Owns the verdict on one tool call or answer: reading it from a decision, and saying it."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, cast

from langchain_core.messages import ToolCall

from coe_agents.clustering.normalized import normalize_answer
from coe_agents.prompts import MAX_REVIEWED, quoted

Outcome = Literal["approved", "rejected", "uncertain", "failed"]

VERDICTS = "coe_verdicts"
"""The key of the agent's private state that holds the verdicts of its last message, by `fingerprint`."""

_SAID: dict[Outcome, str] = {
    "approved": "the group approves",
    "rejected": "the group is sure and does not approve",
    "uncertain": "the group is not sure",
    "failed": "the group could not be asked",
}
_OBJECTION = re.compile(
    "no|not|dont|doesnt|isnt|cant|cannot|never|nor|neither|reject|rejected|refuse|deny|decline|wrong|incorrect"
    "|if|unless|until|only|but|however|except|provided"
)


class Verdict(TypedDict):
    """What the group thinks of a tool call or an answer; plain data, so that it survives any checkpointer.

    Attributes:
        outcome: "approved"; "rejected": the group is sure, and does not approve; "uncertain": it withheld an answer;
            "failed": it could not be asked.
        reason: Why, with the numbers.
        answer: What the group replied; None unless it is sure.
        regime: See `coe_agents.graph.DecisionData`; this and the numbers, in nats, are None if nothing was measured.
    """

    outcome: Outcome
    reason: str
    answer: str | None
    regime: str | None
    coe: float | None
    aleatoric: float | None
    epistemic: float | None


def is_approval(answer: str) -> bool:
    """Returns whether a reply says "approve" and nothing against it; in doubt it does not.

    Example:
        >>> [is_approval(reply) for reply in ("Approve.", "approve: the user asked for it")]
        [True, True]
        >>> [is_approval(reply) for reply in ("Do not approve", "approve or reject", "Approve, but only up to 10")]
        [False, False, False]
    """
    words = normalize_answer(answer).split()
    return words[:1] == ["approve"] and "?" not in answer and not any(map(_OBJECTION.fullmatch, words))


def read_verdict(result: Mapping[str, Any], approves: Callable[[str], bool]) -> Verdict:
    """Returns the verdict in what a graph of `create_coe_graph` gave back.

    Raises:
        KeyError, TypeError, ValueError: If there is no decision in it, or `approves` does not return a bool.
    """
    decision = result["decision"]
    action, answer = decision["action"], decision["answer"]
    approved = False
    if action == "answer":
        if not isinstance(answer, str):
            raise TypeError(f"an answer must be a text; {type(answer).__name__} came")
        told: object = approves(answer)
        if not isinstance(told, bool):  # a coroutine, say, would be true
            raise TypeError(f'"approves" must return a bool; it returned {type(told).__name__}')
        approved = told
    elif action not in ("abstain", "escalate"):
        raise ValueError(f"no such action at the end: {action!r}")
    outcome: Outcome = "uncertain" if action != "answer" else "approved" if approved else "rejected"
    numbers = {name: decision.get(name) for name in ("regime", "coe", "aleatoric", "epistemic")}
    fields = {"outcome": outcome, "reason": quoted(decision["reason"]), "answer": answer, **numbers}
    return cast("Verdict", fields)


def unmeasured(outcome: Outcome, reason: str) -> Verdict:
    """Returns a verdict for which nobody was asked, or nobody could be."""
    return Verdict(outcome=outcome, reason=reason, answer=None, regime=None, coe=None, aleatoric=None, epistemic=None)


def too_long(n_chars: int) -> Verdict:
    """Returns the verdict on what is too long to be shown whole: nobody can be sure of what they don't see."""
    return unmeasured("uncertain", f"{n_chars} characters are more than the {MAX_REVIEWED} that it is shown")


def in_words(verdict: Verdict) -> str:
    """Returns what the group thinks and why, for the driving model or a person."""
    regime = f" (regime: {verdict['regime']})" if verdict["regime"] else ""
    return f"{_SAID[verdict['outcome']]}: {verdict['reason']}{regime}"


def fingerprint(call: ToolCall) -> str:
    """Returns what a verdict belongs to: this call with these arguments, so that an edited call has none."""
    identity = json.dumps([call.get("id"), call["name"], call["args"]], sort_keys=True, default=repr)
    return hashlib.sha256(identity.encode()).hexdigest()


def verdict_of(state: Any, call: ToolCall) -> Verdict | None:
    """Returns the verdict on a call of the agent's last message; None where the group has not seen this very call."""
    verdicts = state.get(VERDICTS) if isinstance(state, Mapping) else getattr(state, VERDICTS, None)
    found: Verdict | None = (verdicts or {}).get(fingerprint(call))
    return found
