"""Owns interrupts for a person: asking until a reply is valid, and rejecting runs that could not be resumed."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import interrupt
from pydantic import StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from coe_agents.errors import ConfigurationError
from coe_agents.types import Candidate, EscalatedCase, Regime

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)]
"""What a person may write."""
Spoken = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
"""What a person must write."""

_Form = TypeVar("_Form")
_Reply = TypeVar("_Reply")


class PersonRequest(TypedDict):
    """What a person is shown; the fields that are not explained here are those of `EscalatedCase`.

    Attributes:
        type: The purpose: "escalation" or "clarify".
        asked: What the person should do, in words.
        problem: Why the previous reply was invalid; None in the first request.
    """

    type: Literal["escalation", "clarify"]
    question: str
    candidates: list[Candidate]
    regime: Regime
    coe: float
    aleatoric: float
    epistemic: float
    reason: str
    asked: str
    problem: str | None


def person_request(
    type: Literal["escalation", "clarify"], case: EscalatedCase, asked: str, problem: str | None
) -> PersonRequest:
    """Returns the part of a case that a person is shown."""
    return PersonRequest(
        type=type,
        question=case["question"],
        candidates=case["candidates"],
        regime=case["regime"],
        coe=case["coe"],
        aleatoric=case["aleatoric"],
        epistemic=case["epistemic"],
        reason=case["reason"],
        asked=asked,
        problem=problem,
    )


def ask(request: Callable[[str | None], Any], form: TypeAdapter[_Form], read: Callable[[_Form], _Reply]) -> _Reply:
    """Interrupts the run until a reply is valid; for a node that has done nothing before.

    Given a type as `response_schema`, LangGraph would raise at a reply that does not fit it, and a server would count
    the run as failed. Given only its JSON schema, LangGraph does not check.

    Args:
        request: Returns what is shown, given the fault of the previous reply (None at first).
        form: The type of a reply.
        read: Converts a reply of that type; raises ValueError if it is invalid.
    """
    problem = None
    while True:
        reply = interrupt(request(problem), response_schema=form.json_schema())
        try:
            return read(form.validate_python(reply))
        except ValueError as error:  # pydantic's own error is one
            problem = faults(error) if isinstance(error, ValidationError) else str(error)


def check_checkpointer() -> None:
    """Refuses a run that may stop for a person and could not be resumed; called inside a run."""
    if get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER) is None:
        raise ConfigurationError(
            "this graph may stop to ask a person, and without a checkpointer it could not be resumed",
            hint="Compile it with one, graph.compile(checkpointer=InMemorySaver()), and pass a thread_id",
        )


def faults(error: ValidationError) -> str:
    """Returns what is wrong, field by field, without the given values."""
    found = error.errors(include_input=False, include_context=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'all of it'}: {_message(fault)}" for fault in found)


def _message(fault: Mapping[str, Any]) -> str:
    """Returns pydantic's message, unless that one names a class of ours."""
    return "Input should be an object" if fault["type"].startswith("model_") else str(fault["msg"])
