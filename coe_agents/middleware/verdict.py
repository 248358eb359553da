"""Owns the verdict on one tool call or answer: reading it from a group's result, storing it, and wording it."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired

from langchain_core.messages import AIMessage, BaseMessage, ToolCall

from coe_agents.clustering.answers import parse_choice
from coe_agents.decision import GroupDecision
from coe_agents.decision.data import Grounds, view
from coe_agents.middleware.marks import is_mark, make_mark, to_text
from coe_agents.middleware.once import new_action
from coe_agents.prompts import MAX_REVIEWED, REVIEW_CHOICES
from coe_agents.text import for_log, for_prompt, quotation
from coe_agents.types import DECIDERS, Cause, Uncertainty, end_of

VerdictOutcome = Literal["approved", "rejected", "uncertain", "failed"]

VERDICTS = "coe_verdicts"
"""The key of the agent's private state that holds the verdicts of its last message: by `fingerprint`, then by gate."""

_KINDS = re.compile(r"\A\w+(?:: \w+(?:Error|Exception|Timeout)\b)*")
_WORDS: dict[VerdictOutcome, str] = {
    "approved": "the group approves",
    "rejected": "the group is confident and does not approve",
    "uncertain": "the group is not confident",
    "failed": "the group could not be asked",
}


class Verdict(Grounds, Uncertainty):
    """The group's verdict on a tool call or an answer; plain data, so that every checkpointer keeps it.

    Attributes:
        outcome: "approved"; "rejected": the group is confident, and does not approve; "uncertain": it withheld an
            answer, or most replies are no verdict; "failed": it could not be asked.
        answer: What the group replied; None unless it is confident.
        decided_by: "group", or "person" where a person decided because the group was uncertain.
        question: What the group was asked; None if it was not asked.
        votes: Each judge's probability of each reply, by the judge's name.
        failed_judges: Why a judge gave no vote, by name.
        action_key: The key of the call as an action; see `new_action`.
        mark: By which the gate knows that it wrote this, about this call.
    """

    outcome: VerdictOutcome
    answer: str | None
    question: str | None
    votes: dict[str, dict[str, float]]
    failed_judges: dict[str, str]
    action_key: NotRequired[str]
    mark: NotRequired[str]


def is_approval(answer: str) -> bool:
    """Returns whether a reply consists of "approve" and nothing else; see `coe_agents.clustering.answers.parse_choice`.

    Example:
        >>> [is_approval(reply) for reply in ("Approve.", '{"verdict": "approve"}')]
        [True, True]
        >>> [is_approval(reply) for reply in ("Do not approve", "Approve nothing.", "Answer: approve")]
        [False, False, False]
    """
    return parse_choice(answer, REVIEW_CHOICES) == "approve"


def read_verdict(
    result: Mapping[str, Any], approves: Callable[[str], bool] | None, question: str
) -> Verdict:
    """Returns the verdict in a result of a graph of `create_coe_graph`.

    Without `approves`, only an answer of the group or of a person counts: an `Arbiter` quotes in its reply what others
    wrote. It counts only in a decision that carries the choices of a review.

    Raises:
        TypeError, ValueError: If there is no decision in it, or one with parts of the wrong type; `approves`
            does not return a bool; the approving decision lacks the choices; or a response was counted as another
            verdict than its text is.
    """
    decision = GroupDecision.from_state(result)
    outcome: VerdictOutcome = "uncertain"
    answer = decision.answer
    cause = decision.cause
    reason = decision.reason
    by = decision.decided_by
    if decision.action != "answer":
        pass
    elif approves is None and by not in DECIDERS:
        answer = None
        reason = f"{for_prompt(by)} decided, and only the group or a person may approve; {reason}"
    elif answer is None:
        raise TypeError('the "answer" of a decision must be a text; got None. Return a string')
    elif approves is not None:
        outcome = _outcome_of(approves(answer))
    elif parse_choice(answer, REVIEW_CHOICES) is None:
        # a group without a view is not confident: how sure it was of such replies is no reason
        reason = f'most replies are no verdict, neither "approve" nor "reject", such as {quotation(answer)}'
        answer = None
        cause = "invalid"
    else:
        outcome = _outcome_of(is_approval(answer))
        if outcome == "approved":
            _check_choices(decision)
        if outcome == "approved" and by == "group":
            _check_responses(result)

    failures = _failures(decision.failed_agents)
    if failures and cause == "unavailable":
        reason = f"no judge gave a vote: {failures}"
    elif failures and outcome != "approved":
        reason = f"{reason}; {failures}"

    votes = {}
    for name, agent in decision.agents.items():
        votes[name] = agent["distribution"]
    return {
        **view(decision.data, Verdict),  # who decided, and the numbers
        "outcome": outcome,
        "cause": cause,
        "reason": for_log(reason),
        "answer": answer,
        "question": question,
        "votes": votes,
        "failed_judges": decision.failed_agents,
    }


def _failures(failed: Mapping[str, str]) -> str:
    """Returns which judges failed, each with the classes of its error; "" if none did."""
    whys = []
    for name, error in failed.items():
        whys.append(f"{for_prompt(name)} failed: {for_prompt(kind_of(error))}")
    return "; ".join(whys)


def kind_of(error: str) -> str:
    """Returns the classes of a described error without its text, which may reveal what a driver must not read.

    Example:
        >>> kind_of("AgentError: RateLimitError: no more of: a question")
        'AgentError: RateLimitError'
        >>> kind_of("")
        'an error'
    """
    kinds = _KINDS.match(error)
    return kinds[0] if kinds else "an error"


def are_all_failed(verdict: Verdict) -> bool:
    """Returns whether the judges were asked, and none of them gave a vote."""
    return bool(verdict["failed_judges"]) and not verdict["votes"]


def is_unopposed(verdict: Verdict) -> bool:
    """Returns whether judges failed, and each of the others approves: only failures stand against what is judged."""
    if verdict["outcome"] != "uncertain" or verdict["cause"] == "budget":
        return False
    replies = {reply for vote in verdict["votes"].values() for reply in vote}
    return bool(verdict["failed_judges"]) and all(map(is_approval, replies))


def _outcome_of(approval: object) -> VerdictOutcome:
    if not isinstance(approval, bool):  # a coroutine, for example, would be true
        raise TypeError(
            f'"approves" must return a bool; got {type(approval).__name__}. Write a plain function'
        )
    return "approved" if approval else "rejected"


def _check_choices(decision: GroupDecision) -> None:
    """Raises ValueError if a graph around ours did not pass the choices on: it need not keep the responses either."""
    if decision.choices != list(REVIEW_CHOICES):
        raise ValueError(
            f'the graph of a review must apply "choices" of its input; its decision has {decision.choices!r}. '
            'Pass "choices" of the input on to the CoE graph, and its whole decision back'
        )


def _check_responses(result: Mapping[str, Any]) -> None:
    """Raises ValueError if responses were counted as something other than their raw texts."""
    responses = result.get("responses") or ()
    labels = result.get("labels") or ()
    reading_of: dict[int, str | None] = {}
    for response, label in zip(responses, labels, strict=False):
        reading = None
        if end_of(response) == "whole":
            reading = parse_choice(response["text"], REVIEW_CHOICES)
        counted = response["text"] if response["answer"] is None else response["answer"]
        is_as_written = parse_choice(counted, REVIEW_CHOICES) == reading
        if not is_as_written or reading_of.setdefault(label, reading) != reading:
            raise ValueError(
                "every response of a review must count as the verdict in its text; got one that an extracted answer or "
                'the clusterer changed. Pass "choices" of the input on to the CoE graph'
            )
    if reading_of and "approve" not in reading_of.values():
        raise ValueError(
            "an approving group must hold an approving response; got none. Ask a graph of create_coe_graph"
        )


def create_unmeasured(outcome: VerdictOutcome, reason: str, *, cause: Cause = "invalid") -> Verdict:
    """Returns a verdict without a measurement: the group was not, or could not be, asked."""
    nothing = GroupDecision(action="abstain", answer=None, cause=cause, reason=reason).data
    return {
        **view(nothing, Verdict),
        "outcome": outcome,
        "question": None,
        "votes": {},
        "failed_judges": {},
    }


def too_long(n_chars: int) -> Verdict:
    """Returns the verdict on a text that is too long to be shown whole."""
    reason = f"{n_chars} characters are more than the {MAX_REVIEWED} that it is shown"
    return create_unmeasured("uncertain", reason)


def in_words(verdict: Verdict) -> str:
    """Returns the verdict and its reason in words, for the driving model or a person."""
    if verdict["decided_by"] == "person":
        return verdict["reason"]
    if are_all_failed(verdict):
        return verdict["reason"]  # it is no doubt of the group's
    words = f"{_WORDS[verdict['outcome']]}: {verdict['reason']}"
    if verdict["regime"] and verdict["cause"] != "invalid":
        words += f" (regime: {verdict['regime']})"
    return words


def call_as_json(args: Any) -> str:
    """Returns a call's arguments in the form that is shown."""
    return json.dumps(args, ensure_ascii=False)


def fingerprint(call: ToolCall, message_id: str | None) -> str:
    """Returns the key of a verdict: this call with these arguments in this message; an edited call has none."""
    identity = to_text([message_id, call.get("id"), call["name"], call["args"]])
    return hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()


def last_reply(messages: Sequence[BaseMessage]) -> tuple[int, AIMessage]:
    """Returns the place of the model's last message, and the message; before there is one, an empty one at the end."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, AIMessage):
            return place, message
    return len(messages), AIMessage("")


def mark_verdict(verdict: Verdict, gate: str, call: ToolCall, message_id: str | None) -> Verdict:
    """Returns a verdict under the mark of a gate; see `make_mark`."""
    kept: Verdict = {"action_key": new_action(gate, message_id, call["id"]), **verdict}
    return {**kept, "mark": _mark(kept, gate, call, message_id)}


def has_mark(verdict: Verdict, gate: str, call: ToolCall, message_id: str | None) -> bool:
    """Returns whether a gate wrote this verdict about this call."""
    return is_mark(verdict.get("mark"), _mark(verdict, gate, call, message_id))


def _mark(verdict: Verdict, gate: str, call: ToolCall, message_id: str | None) -> str:
    decided = {key: value for key, value in verdict.items() if key != "mark"}
    return make_mark("verdict", gate, message_id, [call], decided)


def verdicts_of(state: Mapping[str, Any], call: ToolCall) -> dict[str, Verdict]:
    """Returns the verdicts on a call of the agent's last message, by the gate's name; those that the gates wrote."""
    _, reply = last_reply(state.get("messages") or [])
    stored: dict[str, dict[str, Verdict]] = state.get(VERDICTS) or {}
    written = {}
    for gate, verdict in stored.get(fingerprint(call, reply.id), {}).items():
        if has_mark(verdict, gate, call, reply.id):
            written[gate] = verdict
    return written


def verdict_of(state: Mapping[str, Any], call: ToolCall) -> Verdict | None:
    """Returns the verdict on a call of the agent's last message; None where no group has judged exactly this call.

    With several gates, it is the first verdict that does not approve.
    """
    verdicts = list(verdicts_of(state, call).values())
    for verdict in verdicts:
        if verdict["outcome"] != "approved":
            return verdict
    return next(iter(verdicts), None)
