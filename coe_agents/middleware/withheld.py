"""Owns what becomes of a proposal that a council withholds: what the driver reads of it, or the user."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from coe_agents.graph.withheld import withheld_message
from coe_agents.middleware.deliberation import CouncilDecision
from coe_agents.middleware.reviewer import NOT_RUN
from coe_agents.text import as_sentence, for_log
from coe_agents.types import WITHHELD_MARK

MAX_NAME = 80
"""The most characters that are shown of a name that a model wrote."""
_SENT_BACK = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "tool_use",
    "tool_call",
    "function_call",
)
"""Blocks of a message that providers want back with the replies to its calls."""
UNREPEATED = "Do not repeat the call unchanged."
NOT_JUDGED = "No model judged the call: it may be repeated."
NO_OBJECTION = "No model that replied objects: the call may be repeated."
_ROUNDING = 1e-9
"""Nats that are no disagreement."""


def withheld_answer(decision: CouncilDecision) -> AIMessage:
    """Returns the message in place of an answer that is withheld; the reason says what is contested."""
    action = "escalate" if decision["action"] == "escalate" else "abstain"
    return withheld_message(action, _why(decision), id=str(uuid.uuid4()))


def block_calls(message: AIMessage, decision: CouncilDecision) -> list[AnyMessage]:
    """Returns the withheld message without its text, and for each of its calls a reply that says why it was not run.

    A call without an id, or with that of an earlier one, is given an id of its own: it would have no reply. So is one
    that cannot be read, which a provider is sent like any other. Reasoning stays: providers want back what they signed.
    """
    why = _why(decision)
    advice = _advise(decision)

    seen = set[str]()
    calls: list[Any] = []
    replies = list[ToolMessage]()
    for place, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        id_ = call["id"]
        if not id_ or id_ in seen:
            digest = hashlib.sha256(f"{message.id} {place}".encode()).hexdigest()
            id_ = f"call_{digest[:24]}"
        seen.add(id_)
        with_own_id = {**call, "id": id_}
        calls.append(with_own_id)
        replies.append(not_run(with_own_id, why, advice=advice))

    n_read = len(message.tool_calls)
    changes = {
        "content": without_text(message.content),
        "tool_calls": calls[:n_read],
        "invalid_tool_calls": calls[n_read:],
    }
    return [message.model_copy(update=changes), *replies]


def _advise(decision: CouncilDecision) -> str:
    """Returns whether the driver should repeat its calls: where only failures stood against them, it may."""
    n_failed = len(decision["failed_agents"])
    n_asked = decision["n_asked"]
    if decision["cause"] == "budget":
        return UNREPEATED
    if n_failed >= n_asked:
        return NOT_JUDGED

    votes_for_driver = decision["votes"] if decision["mode"] == "verify" else None
    if n_failed and n_failed + len(votes_for_driver or ()) >= n_asked:
        return NO_OBJECTION
    return UNREPEATED


def without_text(content: Any) -> Any:
    """Returns the content of a message without all that a reader could see: only reasoning and calls stay."""
    if isinstance(content, str):
        return ""
    kept = []
    for block in content:
        if isinstance(block, Mapping) and block.get("type") in _SENT_BACK:
            kept.append(block)
    return kept


def is_withheld(message: BaseMessage) -> TypeGuard[ToolMessage]:
    """Returns whether a message is a reply which says that its call was not run."""
    return isinstance(message, ToolMessage) and bool(message.response_metadata.get(NOT_RUN))


def without_withheld(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Returns a conversation as if no call had been withheld: without these calls, the texts beside them, and why."""
    shown = list[AnyMessage]()
    for place, message in enumerate(messages):
        if is_withheld(message):
            continue
        if not isinstance(message, AIMessage):
            shown.append(message)
            continue
        withheld = set[str | None]()
        for reply in messages[place + 1 :]:
            if isinstance(reply, AIMessage):
                break
            if is_withheld(reply):
                withheld.add(reply.tool_call_id)
        calls = [call for call in message.tool_calls if call["id"] not in withheld]
        if not withheld:
            shown.append(message)
        elif calls:
            shown.append(AIMessage("", id=message.id, tool_calls=calls))
    return shown


def not_run(
    call: Mapping[str, Any], why: str, *, advice: str = UNREPEATED, artifact: Any = None
) -> ToolMessage:
    """Returns the reply to a call that was not run, with what the model should do."""
    name = for_log(call["name"] or "", limit=MAX_NAME)
    return ToolMessage(
        f"{name} was not run: {as_sentence(why)} {advice}".strip(),
        name=name,
        tool_call_id=call["id"] or "",
        status="error",
        artifact=artifact,
        response_metadata={NOT_RUN: True, WITHHELD_MARK: True},
    )


def contested_in_words(contested: Mapping[str, Any] | None) -> str:
    """Returns what proposals disagree about, without the values, which models wrote; "" if about nothing."""
    if contested is None:
        return ""
    parts = []
    if contested.get("call", 0.0) > _ROUNDING:
        parts.append("whether to call a tool")
    elif contested.get("tool", 0.0) > _ROUNDING:
        parts.append("which tool to call")

    argument = _first_argument(contested)
    if argument is not None:
        parts.append(f'the argument "{for_log(str(argument), limit=MAX_NAME)}"')
    return " and ".join(parts)


def _first_argument(contested: Mapping[str, Any]) -> Any:
    return next(iter(contested.get("arguments") or ()), None)


def rule_in_words(contested: Mapping[str, Any] | None) -> str:
    """Returns which rule would loosen the first contested argument, if it is a text; "" where none would."""
    contested = contested or {}
    argument = _first_argument(contested)
    for path in contested.get("texts") or ():
        if path.endswith(f".{argument}"):
            rule = f'ActionMatch(compare={{"{for_log(path, limit=2 * MAX_NAME)}": Text()}})'
            return (
                f"texts are compared exactly; {rule} ignores case, white space and final full stops"
            )
    return ""


def with_rule(decision: CouncilDecision) -> CouncilDecision:
    """Returns a decision whose reason names such a rule, too.

    It is for whoever builds the agent: neither the driver nor the user reads the reason of this decision.
    """
    rule = rule_in_words(decision["contested"])
    if not rule or decision["action"] == "answer":
        return decision
    return {**decision, "reason": f"{decision['reason']}; {rule}"}


def _why(decision: CouncilDecision) -> str:
    about = contested_in_words(decision["contested"])
    if not about:
        return decision["reason"]
    return f"the models do not agree on {about}: {decision['reason']}"
