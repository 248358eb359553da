"""Owns the request to a person about calls that the group is uncertain about, and the reading of the decisions.

The request has the format of LangChain's `HumanInTheLoopMiddleware`, which chat interfaces support.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from langchain.agents.middleware.human_in_the_loop import ActionRequest, DecisionType, HITLRequest, ReviewConfig
from langchain_core.messages import ToolCall
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from coe_agents.graph.human_input import Spoken, Text, ask
from coe_agents.middleware.verdict import Verdict, call_as_json, fence, in_words
from coe_agents.policy.wording import decomposition
from coe_agents.text import for_log, for_prompt

_ALLOWED: list[DecisionType] = ["approve", "edit", "reject", "respond"]


class _Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Approve(_Decision):
    """The call may run."""

    type: Literal["approve"]


class _Action(_Decision):
    name: Annotated[str, StringConstraints(min_length=1)]
    args: dict[str, Any]


class Edit(_Decision):
    """Another call takes its place, and is judged in turn."""

    type: Literal["edit"]
    edited_action: _Action


class Reject(_Decision):
    """The call does not run."""

    type: Literal["reject"]
    message: Text = ""


class Respond(_Decision):
    """The person answers in the tool's place."""

    type: Literal["respond"]
    message: Spoken


Decided = Approve | Edit | Reject | Respond


class _Reply(BaseModel):
    decisions: list[Annotated[Decided, Field(discriminator="type")]]


_REPLY = TypeAdapter(_Reply)


def ask_person(calls: Sequence[tuple[ToolCall, Verdict]]) -> list[Decided]:
    """Interrupts the run, once for all calls, until the reply holds a decision for each of them."""

    def read(reply: _Reply) -> list[Decided]:
        if len(reply.decisions) != len(calls):
            raise ValueError(
                f'"decisions" must hold one for each of {len(calls)} calls, in their order; '
                f"got {len(reply.decisions)}. Decide on all of them"
            )
        return reply.decisions

    return ask(lambda problem: _request(calls, problem), _REPLY, read)


def _request(calls: Sequence[tuple[ToolCall, Verdict]], problem: str | None) -> HITLRequest:
    return HITLRequest(
        action_requests=[
            ActionRequest(name=call["name"], args=call["args"], description=_description(call, verdict, problem))
            for call, verdict in calls
        ],
        review_configs=[ReviewConfig(action_name=call["name"], allowed_decisions=_ALLOWED) for call, _ in calls],
    )


def _description(call: ToolCall, verdict: Verdict, problem: str | None) -> str:
    """Returns the text for a person, as Markdown in which no text of a model is rendered."""
    parts = [f"**Your last reply could not be used: {for_log(problem)}**"] if problem else []
    parts += [fence(f"{call['name']} {call_as_json(call['args'])}"), fence(in_words(verdict))]
    coe, aleatoric, epistemic = verdict["coe"], verdict["aleatoric"], verdict["epistemic"]
    if coe is not None and aleatoric is not None and epistemic is not None:
        divergence = verdict.get("divergence") or "kl"
        parts += [f"CoE {decomposition(coe=coe, aleatoric=aleatoric, epistemic=epistemic, divergence=divergence)}"]
    votes = list[str]()
    for name, vote in verdict["votes"].items():
        ranked = sorted(vote.items(), key=lambda one: -one[1])
        votes.append(f"{for_prompt(name)}: {', '.join(f'{for_prompt(reply)} {share:.0%}' for reply, share in ranked)}")
    votes += [f"{for_prompt(name)}: no vote, {for_prompt(why)}" for name, why in verdict["failed_judges"].items()]
    if votes:
        parts += ["Votes of the judges:", fence("\n".join(votes))]
    if verdict["question"] is not None:
        parts += ["What they were asked:", fence(verdict["question"])]
    return "\n\n".join(parts)
