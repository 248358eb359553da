"""Owns how people are asked: the requests, the interrupt until a reply can be used, and the reading of decisions.

A request for decisions has the form of LangChain's `HumanInTheLoopMiddleware` (`HITLRequest`), which chat interfaces
support, as plain data: langchain need not be installed.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from coe_agents.decision.data import view
from coe_agents.errors import ConfigurationError
from coe_agents.text import for_log, visible, visible_all
from coe_agents.types import CaseSummary, EscalatedCase

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=20_000)]
"""What a person may write."""
Spoken = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
"""What a person must write."""

_Form = TypeVar("_Form")
_Read = TypeVar("_Read")


class PersonRequest(CaseSummary):
    """What a person is shown: a case, and what to do.

    Attributes:
        type: The purpose: "escalation" or "clarify".
        asked: What the person should do, in words.
        problem: Why the previous reply was invalid; None in the first request.
    """

    type: Literal["escalation", "clarify"]
    asked: str
    problem: str | None


class StrictModel(BaseModel):
    """StrictModel of a person's reply; what else is in it is refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Approve(StrictModel):
    """The action may be taken as it is."""

    type: Literal["approve"]


class EditedAction(StrictModel):
    """What is done in place of the action."""

    name: Annotated[str, StringConstraints(min_length=1)]
    args: dict[str, Any]


class Edit(StrictModel):
    """Another action takes its place."""

    type: Literal["edit"]
    edited_action: EditedAction


class Reject(StrictModel):
    """The action is not taken."""

    type: Literal["reject"]
    message: Text = ""


class Respond(StrictModel):
    """The person answers in its place."""

    type: Literal["respond"]
    message: Spoken


Review = Approve | Edit | Reject | Respond


class _Decisions(StrictModel):
    decisions: list[Annotated[Review, Field(discriminator="type")]]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action on which a person is to decide, by a decision of an `allowed` type; `description` is Markdown."""

    name: str
    args: dict[str, Any]
    description: str
    allowed: Sequence[str] = ("approve", "edit", "reject", "respond")


_REPLIES_TO_OTHERS: dict[str, int] = {}
"""How many replies were given to requests that this process did not make, by what it asks anew because of them."""


def drop_replies(question: str) -> None:
    """Drops the replies to former requests of this task, which the next request of the run would else be given.

    `question` identifies what is asked in their place.
    """
    _REPLIES_TO_OTHERS[question] = 0
    with suppress(GraphInterrupt):
        while True:
            interrupt(None)
            _REPLIES_TO_OTHERS[question] += 1


def is_asked_anew(question: str) -> bool:
    """Returns whether this process has asked this, instead of something that it could not know."""
    return question in _REPLIES_TO_OTHERS


def ask(
    request: Callable[[str | None], Any], form: TypeAdapter[_Form], read: Callable[[_Form], _Read]
) -> _Read:
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


def ask_about_case(
    type: Literal["escalation", "clarify"],
    case: EscalatedCase,
    asked: str,
    form: TypeAdapter[_Form],
    read: Callable[[_Form], _Read],
) -> _Read:
    """Shows a person a case as a `PersonRequest`, all of it visible, until a reply is valid; see `ask`."""

    def request(problem: str | None) -> PersonRequest:
        shown: PersonRequest = visible_all(view(case, PersonRequest))
        return {**shown, "type": type, "asked": asked, "problem": problem}

    return ask(request, form, read)


def ask_for_decisions(
    actions: Sequence[ActionRequest],
    check: Callable[[ActionRequest, Review], object] | None = None,
    *,
    problem_in_args: bool = False,
) -> list[Review]:
    """Asks a person about all actions at once, until the reply holds a fitting decision on each; see `ask`.

    `check` raises ValueError if a decision does not fit its action. With `problem_in_args` the fault of a reply is also
    shown among the arguments, where an interface shows it that hides descriptions.
    """

    def read(reply: _Decisions) -> list[Review]:
        if len(reply.decisions) != len(actions):
            raise ValueError(
                f'"decisions" must hold one for each of {len(actions)} actions, in their order; '
                f"got {len(reply.decisions)}. Decide on all of them"
            )
        for action, decided in zip(actions, reply.decisions, strict=True):
            if check is not None:
                check(action, decided)
            if decided.type not in action.allowed:
                raise ValueError(
                    f'"type" of a decision on {action.name} must be one of {", ".join(action.allowed)}; '
                    f"got {decided.type}. Choose one of them"
                )
        return reply.decisions

    def request(problem: str | None) -> dict[str, Any]:
        told = None if problem is None else f"Your last reply could not be used: {for_log(problem)}"
        return {
            "action_requests": [
                {
                    "name": one.name,
                    "args": {**one.args, "problem": told} if told and problem_in_args else one.args,
                    "description": f"**{told}**\n\n{one.description}" if told else one.description,
                }
                for one in actions
            ],
            "review_configs": [
                {"action_name": one.name, "allowed_decisions": [*one.allowed]} for one in actions
            ],
        }

    return ask(request, _decisions_form(), read)


@cache
def _decisions_form() -> TypeAdapter[_Decisions]:
    return TypeAdapter(_Decisions)


def fence(text: str) -> str:
    """Returns a text as a block of code, which interfaces show unchanged; invisible characters are escaped."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(text)}\n{fence}"


def check_checkpointer() -> None:
    """Refuses a run that may stop for a person and could not be resumed; called inside a run."""
    if get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER) is None:
        raise ConfigurationError(
            "this graph may stop to ask a person, and without a checkpointer it could not be resumed",
            hint="Compile it with one, graph.compile(checkpointer=InMemorySaver()), and pass a thread_id",
        )


def faults(error: ValidationError) -> str:
    """Returns what is wrong, field by field, without the given values and the names of our classes."""
    found = error.errors(include_input=False, include_context=False, include_url=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'all of it'}: "
        f"{'Input should be an object' if fault['type'].startswith('model_') else fault['msg']}"
        for fault in found
    )
