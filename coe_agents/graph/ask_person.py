"""Owns `AskPerson`: a person decides an escalated case, in either form, and the run waits for the reply."""

from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, Field, TypeAdapter

from coe_agents.checks import one_of
from coe_agents.graph.people import (
    ActionRequest,
    Approve,
    Edit,
    Reject,
    Respond,
    Review,
    Spoken,
    StrictModel,
    Text,
    ask_about_case,
    ask_for_decisions,
)
from coe_agents.text import decomposition, one_line, visible
from coe_agents.types import EscalatedCase, Ruling

Form = Literal["coe", "agent_chat_ui"]
_ACTION = "answer_question"
_ASKED = "Approve a candidate by its number, give an answer of your own, or reject them all."


class _Approve(StrictModel):
    type: Literal["approve"]
    candidate: int = Field(strict=True)


class _Answer(StrictModel):
    type: Literal["answer"]
    answer: Spoken


class _Reject(StrictModel):
    type: Literal["reject"]
    reason: Text = ""


_Own: TypeAlias = _Approve | _Answer | _Reject


class _Arguments(BaseModel, defer_build=True):
    """What of the arguments of `review` is read of an edit."""

    answer: Spoken
    candidates: str | None = None


@cache
def _own_form() -> TypeAdapter[_Own]:
    return TypeAdapter(Annotated[_Own, Field(discriminator="type")])


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

    def __init__(self, form: Form = "coe") -> None:
        self.form = one_of(
            form, '"form" of AskPerson', get_args(Form), advice='"coe" shows the most'
        )

    def __repr__(self) -> str:
        return f"AskPerson({self.form!r})"

    def invoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        if self.form == "coe":
            return ask_about_case("escalation", input, _ASKED, _own_form(), partial(_rule, input))
        (decided,) = ask_for_decisions(
            [_review(input)], check=lambda _, decided: _rule(input, decided), problem_in_args=True
        )
        return _rule(input, decided)

    async def ainvoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        return self.invoke(input, config)


def _review(case: EscalatedCase) -> ActionRequest:
    answers = case["candidates"]
    parts = {"coe": case["coe"], "aleatoric": case["aleatoric"], "epistemic": case["epistemic"]}
    numbers = decomposition(**parts)
    regime = (
        "" if case["regime"] == "consensus" else f"Regime: {case['regime']}; "
    )  # agreement explains no escalation
    lines = [
        _literally(case["question"]),
        f"The models did not settle this: {_literally(case['reason'])}. {regime}CoE {numbers}.",
        "\n".join(
            f"{one['number']}. {_literally(one['answer'])} ({one['support']:.0%})"
            for one in answers
        ),
        "Approve the first answer, edit it, respond with another, or reject them all.",
    ]
    # the arguments are what Agent Chat UI shows at once: it hides the description behind a button
    args: dict[str, Any] = {"answer": visible(answers[0]["answer"]) if answers else ""}
    if answers:
        args["candidates"] = _listed(case)
    allowed = [*(["approve"] if answers else []), "edit", "reject", "respond"]
    return ActionRequest(_ACTION, args, "\n\n".join(line for line in lines if line), allowed)


def _listed(case: EscalatedCase) -> str:
    return "\n".join(
        f"{one['number']}. {one_line(visible(one['answer']))} ({one['support']:.0%})"
        for one in case["candidates"]
    )


def _literally(text: str) -> str:
    """Returns a text as code, so that no interface renders anything in it; what is invisible is escaped."""
    return f"`{one_line(visible(text)).replace('`', chr(39))}`"


def _rule(case: EscalatedCase, reply: _Own | Review) -> Ruling:
    """Returns what a reply decides; raises ValueError if it does not fit the case."""
    match reply:
        case _Approve(candidate=number):
            return _approved(case, number)
        case Approve():
            return _approved(case, 1)
        case Edit(edited_action=action):
            if action.name != _ACTION:
                raise ValueError(
                    f'"edited_action" must have the name "{_ACTION}"; got another. Edit "answer" alone'
                )
            edited = _Arguments.model_validate(action.args)
            if edited.candidates not in (None, _listed(case)):
                raise ValueError(
                    'only "answer" can be edited; write the answer that you choose there'
                )
            return _answered(case, edited.answer)
        case _Answer(answer=answer) | Respond(message=answer):
            return _answered(case, answer)
        case _Reject(reason=why) | Reject(message=why):
            n = len(case["candidates"])
            reason = f"a person rejected {'the only answer' if n == 1 else f'all {n} answers'}"
            return Ruling(action="abstain", reason=f'{reason} ("{why}")' if why else reason)


def _approved(case: EscalatedCase, number: int) -> Ruling:
    answers = case["candidates"]
    if not 1 <= number <= len(answers):
        raise ValueError(
            f"there is no candidate {number}; there are {len(answers)}, numbered from 1"
        )
    chosen = answers[number - 1]
    reason = (
        f"a person approved answer {number} of {len(answers)} (support {chosen['support']:.0%})"
    )
    return Ruling(action="answer", answer=chosen["answer"], reason=reason)


def _answered(case: EscalatedCase, answer: str) -> Ruling:
    for one in case["candidates"]:
        if answer in (one["answer"], visible(one["answer"])):  # the person saw the second
            return _approved(case, one["number"])
    reason = f"a person gave another answer than the {len(case['candidates'])} of the group"
    return Ruling(action="answer", answer=answer, reason=reason)
