"""Owns how people are asked: the requests, the interrupt until a reply can be used, and what a reply decides.

A request for decisions has the form of LangChain's `HumanInTheLoopMiddleware` (`HITLRequest`), which chat interfaces
support, as plain data: langchain need not be installed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)

from coe_agents._removed import refuses_removed
from coe_agents.checks import one_of
from coe_agents.decision.data import view
from coe_agents.errors import ConfigurationError
from coe_agents.text import decomposition, for_log, one_line, quotation, visible, visible_all
from coe_agents.types import CaseSummary, EscalatedCase, Ruling

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
    """A part of a person's reply; what else is in it is refused."""

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
_REVIEWS = {"approve": Approve, "edit": Edit, "reject": Reject, "respond": Respond}


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action on which a person is to decide, by a decision of an `allowed` type; `description` is Markdown."""

    name: str
    args: dict[str, Any]
    description: str
    allowed: Sequence[str] = ("approve", "edit", "reject", "respond")


def drop_replies() -> None:
    """Drops the replies to former requests of this task, which the next request of the run would else be given.

    They are over only once the run has gone on to another checkpoint: until then LangGraph gives them again.
    """
    with suppress(GraphInterrupt):
        while True:
            interrupt(None)


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
    check: Callable[[ActionRequest, Review], object],
    *,
    problem_in_args: bool = False,
) -> list[Review]:
    """Asks a person about all actions at once, until the reply holds a fitting decision on each; see `ask`.

    `check` raises ValueError if a decision does not fit its action. With `problem_in_args` the fault of a reply is also
    shown among the arguments, where an interface shows it that hides descriptions. Escapes stand for what is invisible
    in the arguments; a text that an edit leaves as it was shown is the one that was proposed.
    """

    def read(reply: Any) -> list[Review]:
        decisions: list[Review] = reply.decisions
        if len(decisions) != len(actions):
            raise ValueError(
                f'"decisions" must hold one for each of {len(actions)} actions, in their order; '
                f"got {len(decisions)}. Decide on all of them"
            )
        for action, decided in zip(actions, decisions, strict=True):
            if isinstance(decided, Edit):
                edited = decided.edited_action
                edited.args = _as_proposed(edited.args, action.args)
            check(action, decided)
            if decided.type not in action.allowed:
                raise ValueError(
                    f'"type" of a decision on {action.name} must be one of {", ".join(action.allowed)}; '
                    f"got {decided.type}. Choose one of them"
                )
        return decisions

    def request(problem: str | None) -> dict[str, Any]:
        requests: list[dict[str, Any]] = []
        configs: list[dict[str, Any]] = []
        for action in actions:
            args = visible_all(action.args)
            description = action.description
            if problem is not None:
                notice = f"Your last reply could not be used: {for_log(problem)}"
                description = f"**{notice}**\n\n{description}"
                if problem_in_args:
                    args = {**args, "problem": notice}
            requests.append({"name": action.name, "args": args, "description": description})
            configs.append({"action_name": action.name, "allowed_decisions": [*action.allowed]})
        return {"action_requests": requests, "review_configs": configs}

    allowed = set[str]()
    for action in actions:
        allowed.update(action.allowed)
    return ask(request, _decisions_form(frozenset(allowed)), read)


def _as_proposed(edited: Any, proposed: Any) -> Any:
    """Returns what a person made of arguments, with each text that was left as it was shown as it was proposed."""
    if isinstance(edited, str) and isinstance(proposed, str):
        return proposed if edited == visible(proposed) else edited
    if isinstance(edited, dict) and isinstance(proposed, Mapping):
        names = {visible(name): name for name in proposed}
        restored = {}
        for shown, value in edited.items():
            name = names.get(shown, shown)
            restored[name] = _as_proposed(value, proposed.get(name))
        return restored
    if isinstance(edited, list) and isinstance(proposed, list):
        # what was added has nothing that was proposed
        pairs = zip_longest(edited, proposed[: len(edited)])
        return [_as_proposed(value, former) for value, former in pairs]
    return edited


@cache
def _decisions_form(allowed: frozenset[str]) -> TypeAdapter[Any]:
    """Returns the form of decisions of these types, each of which some action allows; others are no choice."""
    forms = tuple(form for kind, form in _REVIEWS.items() if kind in allowed)
    # which forms there are is known only now, so that the operator cannot join them
    review: Any = Annotated[Union[forms], Field(discriminator="type")]  # noqa: UP007
    decisions: Any = (list[review], ...)
    return TypeAdapter(create_model("Decisions", __base__=StrictModel, decisions=decisions))


def fence(text: str) -> str:
    """Returns a text as a block of code, which interfaces show unchanged; invisible characters are escaped."""
    runs = re.findall("`+", text)
    longest = max(map(len, runs), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(text)}\n{fence}"


def check_checkpointer() -> None:
    """Refuses a run that may stop for a person and could not be resumed; called inside a run."""
    if get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER) is None:
        raise ConfigurationError(
            "this graph may stop to ask a person, and without a checkpointer it could not be resumed",
            hint="Compile it with one, graph.compile(checkpointer=InMemorySaver()), and pass a thread_id",
        )


def faults(error: ValidationError, *, whole: str = "the reply") -> str:
    """Returns what is wrong, field by field, without the names of our classes; `whole` says what has the fields.

    Of what was given it has the type of a reply alone: other texts may be long, or not meant for a log.
    """
    described = [_fault(fault, whole) for fault in error.errors(include_url=False)]
    return "; ".join(described)


def _fault(fault: Mapping[str, Any], whole: str) -> str:
    place = ".".join(str(part) for part in fault["loc"]) or whole
    kind = fault["type"]
    if kind == "union_tag_invalid":
        types = fault["ctx"]["expected_tags"].replace("'", "")
        given = quotation(fault["ctx"]["tag"])
        return f'"type" of {place} must be one of {types}; got {given}. Choose one of them'
    if kind == "union_tag_not_found":
        return f'"type" of {place} must say what is decided; got none. Add it'
    if kind.startswith("model_"):  # pydantic's words name our class
        given = type(fault["input"]).__name__
        return f"{place} must be an object; got {given}. Pass one with its fields"
    message = fault["msg"].removeprefix("Value error, ")  # pydantic's words
    return f"{place}: {message}"


Form = Literal["coe", "agent_chat_ui"]
_ACTION = "answer_question"
_ASKED = "Approve a candidate by its number, give an answer of your own, or reject them all."


class _ApproveCandidate(StrictModel):
    type: Literal["approve"]
    candidate: int = Field(strict=True)


class _GiveAnswer(StrictModel):
    type: Literal["answer"]
    answer: Spoken


class _RejectAll(StrictModel):
    type: Literal["reject"]
    reason: Text = ""


_CaseReply: TypeAlias = _ApproveCandidate | _GiveAnswer | _RejectAll


class _EditedArguments(BaseModel, defer_build=True):
    """What of the arguments of `review` is read of an edit."""

    answer: Spoken
    candidates: str | None = None


@cache
def _case_form() -> TypeAdapter[_CaseReply]:
    return TypeAdapter(Annotated[_CaseReply, Field(discriminator="type")])


class AskPerson(Runnable[EscalatedCase, Ruling]):
    """Asks a person to decide; for `escalation=`. The graph needs a checkpointer, and waits at an `interrupt`.

    After an invalid reply the run interrupts again and says what was wrong. Resuming does not sample again, not even in
    a subgraph, unless the subgraph is compiled with `checkpointer=False`.

    Args:
        form: The format of the request, and of the reply that you pass as `Command(resume=reply)`. The interrupt's
            `response_schema` describes the reply.

            "coe" shows a `PersonRequest`. The reply is `{"type": "approve", "candidate": number}`,
            `{"type": "answer", "answer": text}` or `{"type": "reject", "reason": text}`, whose reason is optional.

            "agent_chat_ui" shows the `{"action_requests": [...], "review_configs": [...]}` of LangChain's
            `HumanInTheLoopMiddleware`. The reply is `{"decisions": [decision]}`, its type "approve" (the best supported
            answer), "edit" or "respond" (another answer), or "reject". The arguments of the request hold that answer
            and, for the person to see, all `candidates`; only the answer can be edited.

            Both show escapes for invisible characters. What is approved is the answer as it was given.

    Raises:
        ValueError: If the form is unknown.
    """

    name = "person"
    interrupts = True

    @refuses_removed
    def __init__(self, form: Form = "coe") -> None:
        advice = '"coe" shows the most'
        self.form = one_of(form, '"form" of AskPerson', get_args(Form), advice=advice)

    def __repr__(self) -> str:
        return f"AskPerson({self.form!r})"

    def invoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        if self.form == "coe":
            return ask_about_case("escalation", input, _ASKED, _case_form(), partial(_rule, input))

        def check(_: ActionRequest, decided: Review) -> object:
            return _rule(input, decided)

        [decided] = ask_for_decisions([_review(input)], check, problem_in_args=True)
        return _rule(input, decided)

    async def ainvoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        return self.invoke(input, config)


def _review(case: EscalatedCase) -> ActionRequest:
    parts = {name: case[name] for name in ("coe", "aleatoric", "epistemic")}
    numbers = decomposition(**parts)
    regime = ""
    if case["regime"] != "consensus":  # agreement explains no escalation
        regime = f"Regime: {case['regime']}; "
    paragraphs = [
        _literally(case["question"]),
        f"The models did not settle this: {_literally(case['reason'])}. {regime}CoE {numbers}.",
    ]
    # the arguments are what Agent Chat UI shows at once: it hides the description behind a button
    args: dict[str, Any] = {"answer": ""}
    allowed = ["edit", "reject", "respond"]
    answers = case["candidates"]
    if answers:
        paragraphs.append(_listed(case, _literally))
        args = {"answer": visible(answers[0]["answer"]), "candidates": _listed(case, _on_one_line)}
        allowed.insert(0, "approve")
    paragraphs.append(
        "Approve the first answer, edit it, respond with another, or reject them all."
    )
    return ActionRequest(_ACTION, args, "\n\n".join(paragraphs), allowed)


def _listed(case: EscalatedCase, write: Callable[[str], str]) -> str:
    lines: list[str] = []
    for candidate in case["candidates"]:
        answer = write(candidate["answer"])
        lines.append(f"{candidate['number']}. {answer} ({candidate['support']:.0%})")
    return "\n".join(lines)


def _on_one_line(text: str) -> str:
    return one_line(visible(text))


def _literally(text: str) -> str:
    """Returns a text as code, so that no interface renders anything in it; what is invisible is escaped."""
    line = _on_one_line(text).replace("`", "'")
    return f"`{line}`"


def _rule(case: EscalatedCase, reply: _CaseReply | Review) -> Ruling:
    """Returns what a reply decides; raises ValueError if it does not fit the case."""
    match reply:
        case _ApproveCandidate(candidate=number):
            return _approved(case, number)
        case Approve():
            return _approved(case, 1)
        case Edit(edited_action=action):
            if action.name != _ACTION:
                raise ValueError(
                    f'"edited_action" must have the name "{_ACTION}"; got {quotation(action.name)}. '
                    'Edit "answer" alone'
                )
            edited = _EditedArguments.model_validate(action.args)
            if edited.candidates not in (None, _listed(case, _on_one_line)):
                raise ValueError(
                    '"candidates" of an edit must stay as it was shown; got another text. '
                    'Write the answer that you choose into "answer"'
                )
            return _answered(case, edited.answer)
        case _GiveAnswer(answer=answer) | Respond(message=answer):
            return _answered(case, answer)
        case _RejectAll(reason=why) | Reject(message=why):
            n_answers = len(case["candidates"])
            what = "the only answer" if n_answers == 1 else f"all {n_answers} answers"
            reason = f"a person rejected {what}"
            if why:
                reason = f'{reason} ("{why}")'
            return Ruling(action="abstain", reason=reason)


def _approved(case: EscalatedCase, number: int) -> Ruling:
    answers = case["candidates"]
    if not 1 <= number <= len(answers):
        numbers = (
            f"a number from 1 to {len(answers)}"
            if answers
            else "left out, since nobody gave an answer"
        )
        raise ValueError(
            f'"candidate" must be {numbers}; got {number}. Choose one that is shown, give an answer, or reject all'
        )
    chosen = answers[number - 1]
    reason = (
        f"a person approved answer {number} of {len(answers)} (support {chosen['support']:.0%})"
    )
    return Ruling(action="answer", answer=chosen["answer"], reason=reason)


def _answered(case: EscalatedCase, answer: str) -> Ruling:
    for candidate in case["candidates"]:
        text = candidate["answer"]
        if answer in (text, visible(text)):  # the person saw the second
            return _approved(case, candidate["number"])
    reason = "a person gave an answer in words of their own"
    return Ruling(action="answer", answer=answer, reason=reason)
