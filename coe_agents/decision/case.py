"""Owns a decided case as data: what a graph passes on at the end of a run, and what is recorded of it."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from coe_agents.decision.data import DecisionData
from coe_agents.types import Cause, Response


class DecidedCase(TypedDict):
    """A case that a graph has decided; plain data, with the text of users.

    Attributes:
        id: The same if the turn is resumed or replayed, and another for any other turn.
        question: The question.
        conversation: What the agents saw, as OpenAI-style dictionaries.
        decision: The decision, as the graph returns it.
        leading: The leading answer, whether it was given or not; None if nothing was measured.
        responses: The responses that were measured, then the failures.
        labels: The cluster of each response that was measured.
    """

    id: str
    question: str
    conversation: list[dict[str, Any]]
    decision: DecisionData
    leading: str | None
    responses: list[Response]
    labels: list[int]


class PersonRuling(TypedDict):
    """What a person ruled.

    Attributes:
        correct: Whether the answer of the group was right; None where the person did not say.
        answer: The right answer; None where the person named none.
        time: When, in ISO 8601.
    """

    correct: bool | None
    answer: str | None
    time: str


class RecordedCase(TypedDict):
    """One case in the store; plain data.

    Attributes:
        id: Its key in the store.
        kind: "escalation": the policy escalated it; "audit": the group answered, and the case was drawn; "observed": a
            council that only observes would have blocked it.
        status: "pending" until it is ruled on.
        time: When the decision was made, in ISO 8601.
        seen_probability: The probability with which such a case is recorded, in (0, 1]: the audit rate, or 1 for any
            other kind.
        question: The question.
        conversation: What the agents saw, as OpenAI-style dictionaries.
        answer: The answer that was given, or the leading one of an escalation; None if nothing was measured.
        cause: Why, as one of the words of `coe_agents.decision.CAUSES`; absent from an earlier version's case.
        reason: Which agents gave which answer, and why the policy decided so.
        responses: The responses that were measured, then the failures.
        labels: The cluster of each response that was measured.
        ruling: None while it is pending.
    """

    id: str
    kind: Literal["escalation", "audit", "observed"]
    status: Literal["pending", "ruled"]
    time: str
    seen_probability: float
    question: str
    conversation: list[dict[str, Any]]
    answer: str | None
    cause: NotRequired[Cause | None]
    reason: str
    responses: list[Response]
    labels: list[int]
    ruling: PersonRuling | None
