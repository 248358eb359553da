"""Owns the forms in which a person replies to an escalated case, and the ruling that each reply stands for."""

from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from coe_agents.graph.human_input import Spoken, Text
from coe_agents.policy.wording import decomposition
from coe_agents.types import EscalatedCase, Ruling

_ACTION = "answer_question"


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Approve(_Reply):
    type: Literal["approve"]
    candidate: int = Field(strict=True)


class _Answer(_Reply):
    type: Literal["answer"]
    answer: Spoken


class _Reject(_Reply):
    type: Literal["reject"]
    reason: Text = ""


_Own: TypeAlias = _Approve | _Answer | _Reject


@cache
def own_form() -> TypeAdapter[_Own]:
    """Returns the type of a reply in the form "coe"."""
    return TypeAdapter(Annotated[_Own, Field(discriminator="type")])


class _ApproveAction(BaseModel):
    type: Literal["approve"]


class _Arguments(BaseModel):
    answer: Spoken
    candidates: str | None = None


class _EditedAction(BaseModel):
    name: Literal["answer_question"]
    args: _Arguments


class _EditAction(BaseModel):
    type: Literal["edit"]
    edited_action: _EditedAction


class _RejectAction(BaseModel):
    type: Literal["reject"]
    message: Text = ""


class _Respond(BaseModel):
    type: Literal["respond"]
    message: Spoken


_Action: TypeAlias = _ApproveAction | _EditAction | _RejectAction | _Respond


class _Reviewed(BaseModel):
    decisions: list[Annotated[_Action, Field(discriminator="type")]] = Field(min_length=1, max_length=1)


@cache
def reviewed_form() -> TypeAdapter[_Reviewed]:
    """Returns the type of a reply in the form "agent_chat_ui"."""
    return TypeAdapter(_Reviewed)


def review(case: EscalatedCase, problem: str | None) -> dict[str, Any]:
    """Returns a `HITLRequest` of langchain as plain data: langchain need not be installed."""
    answers = case["candidates"]
    parts = {"coe": case["coe"], "aleatoric": case["aleatoric"], "epistemic": case["epistemic"]}
    numbers = decomposition(**parts, divergence=case.get("divergence", "kl"))
    regime = "" if case["regime"] == "consensus" else f"Regime: {case['regime']}; "  # agreement explains no escalation
    lines = [
        *([f"**Your last reply could not be used: {problem}**"] if problem else []),
        _literally(case["question"]),
        f"The models did not settle this: {_literally(case['reason'])}. {regime}CoE {numbers}.",
        "\n".join(f"{one['number']}. {_literally(one['answer'])} ({one['support']:.0%})" for one in answers),
        "Approve the first answer, edit it, respond with another, or reject them all.",
    ]
    # the arguments are what Agent Chat UI shows at once: it hides the description behind a button
    args = {"answer": answers[0]["answer"] if answers else ""}
    if answers:
        args["candidates"] = _listed(case)
    if problem:
        args["problem"] = f"Your last reply could not be used: {problem}"
    request = {
        "name": _ACTION,
        "args": args,
        "description": "\n\n".join(line for line in lines if line),
    }
    allowed = [*(["approve"] if answers else []), "edit", "reject", "respond"]
    return {
        "action_requests": [request],
        "review_configs": [{"action_name": _ACTION, "allowed_decisions": allowed}],
    }


def _listed(case: EscalatedCase) -> str:
    """Returns the candidates, one on each line."""
    return "\n".join(
        f"{one['number']}. {' '.join(one['answer'].split())} ({one['support']:.0%})" for one in case["candidates"]
    )


def _literally(text: str) -> str:
    """Returns a text as code, so that no interface renders anything in it."""
    return f"`{' '.join(text.split()).replace('`', chr(39))}`"


def rule(case: EscalatedCase, reply: _Own | _Reviewed | _Action) -> Ruling:
    """Returns what a reply decides; raises ValueError if it does not fit the case."""
    match reply:
        case _Reviewed():
            return rule(case, reply.decisions[0])
        case _Approve(candidate=number):
            return _approved(case, number)
        case _ApproveAction():
            return _approved(case, 1)
        case _EditAction():
            edited = reply.edited_action.args
            if edited.candidates not in (None, _listed(case)):
                raise ValueError('only "answer" can be edited; write the answer that you choose there')
            return _answered(case, edited.answer)
        case _Answer(answer=answer) | _Respond(message=answer):
            return _answered(case, answer)
        case _Reject(reason=why) | _RejectAction(message=why):
            n = len(case["candidates"])
            reason = f"a person rejected {'the only answer' if n == 1 else f'all {n} answers'}"
            return Ruling(action="abstain", reason=f'{reason} ("{why}")' if why else reason)


def _approved(case: EscalatedCase, number: int) -> Ruling:
    answers = case["candidates"]
    if not 1 <= number <= len(answers):
        raise ValueError(f"there is no candidate {number}; there are {len(answers)}, numbered from 1")
    chosen = answers[number - 1]
    reason = f"a person approved answer {number} of {len(answers)} (support {chosen['support']:.0%})"
    return Ruling(action="answer", answer=chosen["answer"], reason=reason)


def _answered(case: EscalatedCase, answer: str) -> Ruling:
    for one in case["candidates"]:
        if one["answer"] == answer:
            return _approved(case, one["number"])
    reason = f"a person gave another answer than the {len(case['candidates'])} of the group"
    return Ruling(action="answer", answer=answer, reason=reason)
