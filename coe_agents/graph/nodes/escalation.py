"""Owns the node that follows "escalate": a model, a person or the user's own function decides the case."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.types import Command
from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from coe_agents._steps import Steps, invoke
from coe_agents.checks import at_field
from coe_agents.clustering.answers import parse_choice
from coe_agents.clustering.refusals import answer_kind
from coe_agents.decision.data import AgentTokens, view
from coe_agents.graph import events
from coe_agents.graph.people import AskPerson, faults
from coe_agents.graph.runnables import TwoForms, disable_streaming, steps_node
from coe_agents.graph.state import CoEState
from coe_agents.measurement.weighting import rank_texts
from coe_agents.types import DECIDERS, Candidate, Cause, EscalatedCase, FinalAction, Ruling, Usage

Escalation = Runnable[EscalatedCase, Ruling] | Callable[[EscalatedCase], Any]
"""What decides an escalated case: an `Arbiter`, an `AskPerson`, or any function or Runnable that returns a `Ruling`.

A function or Runnable that calls LangGraph's `interrupt` must have the attribute `interrupts = True`: its graph needs a
checkpointer. Only an `AskPerson` counts as a person; all others decide as arbiters.
"""


def candidates(given: Mapping[str, Any]) -> list[Candidate]:
    """Returns what the agents answered, the best supported first, then by text, without refusals and empty responses.

    Args:
        given: A decision, or the state or result of a run; of a state, the last measurement counts.

    Example:
        >>> decision = {"support": {"I don't know.": 0.5, "Lyon": 0.2, "Paris": 0.3},
        ...             "agents": {"a": {"distribution": {"Paris": 0.6, "Lyon": 0.4}}}}
        >>> [(one["number"], one["answer"], one["agents"]) for one in candidates(decision)]
        [(1, 'Paris', {'a': 0.6}), (2, 'Lyon', {'a': 0.4})]
    """
    if "measured" in given:
        measured = given["measured"] or {}
        texts = measured.get("representatives", ())
        support = dict(zip(texts, measured.get("support", ()), strict=True))
    else:
        measured = given.get("decision", given)
        support = measured["support"]

    ranked: list[Candidate] = []
    for answer, share in rank_texts(support.items()):
        if answer_kind(answer) != "answer":
            continue
        probabilities: dict[str, float] = {}
        for name, agent in measured.get("agents", {}).items():
            if answer in agent["distribution"]:
                probabilities[name] = agent["distribution"][answer]
        candidate = Candidate(
            number=len(ranked) + 1, answer=answer, support=share, agents=probabilities
        )
        ranked.append(candidate)
    return ranked


def case_of(state: CoEState) -> EscalatedCase:
    """Returns the case for whoever decides; the state must hold a measurement."""
    return {
        **view(state["measured"] or {}, EscalatedCase),
        "question": state["turn"]["question"],
        "conversation": state["turn"]["conversation"],
        "candidates": candidates(state),
        "reason": state["settled"]["reason"],
    }


def escalation_node(escalation: Escalation, agents: Collection[str]) -> TwoForms:
    """Returns the node that passes the case to `escalation` and routes by its ruling."""
    decider = _decider(escalation)
    name = getattr(decider, "name", None) or "escalation"
    is_person = isinstance(decider, AskPerson)
    if name in agents or (name in DECIDERS and not is_person):
        message = f'the name of "escalation" must differ from "group", "person" and the agents\'; got {name!r}'
        raise at_field(ValueError(f"{message}. Rename it"), f"agents.{name}")

    def escalate(state: CoEState, config: RunnableConfig) -> Steps[Command[str]]:
        ruling = yield invoke(decider, case_of(state), disable_streaming(config))
        return _apply_ruling(state, ruling, name, is_person=is_person)

    return steps_node(escalate, name="escalation")


def _decider(escalation: Escalation) -> Runnable[EscalatedCase, Any]:
    if isinstance(escalation, type):
        name = escalation.__name__
        raise TypeError(
            f'"escalation" must be an object, not a class; got {name}. Call it with its arguments'
        )
    # imported here, since most graphs do not escalate
    from langchain_core.language_models import BaseLanguageModel

    is_model = isinstance(escalation, BaseLanguageModel)
    if isinstance(escalation, Runnable) and not is_model:
        return escalation
    if callable(escalation) and not is_model:
        return RunnableLambda(escalation)
    raise TypeError(
        '"escalation" must be an Arbiter, an AskPerson, or a function or Runnable from an EscalatedCase to a Ruling; '
        f"got {type(escalation).__name__}. Wrap a chat model: Arbiter(model)"
    )


class _CheckedRuling(BaseModel, defer_build=True):
    action: FinalAction
    answer: str | None = None
    reason: str
    decided_by: str | None = Field(default=None, min_length=1)
    usage: dict[Literal["input_tokens", "output_tokens"], NonNegativeInt | None] | None = None


def _apply_ruling(state: CoEState, returned: object, name: str, *, is_person: bool) -> Command[str]:
    try:
        ruling = _CheckedRuling.model_validate(returned)
    except ValidationError as error:
        wrong = faults(error, whole="it")
        raise ValueError(
            f'"escalation" must return a Ruling; {name!r} returned {type(returned).__name__} ({wrong}). '
            "Return coe_agents.types.Ruling(action=..., answer=..., reason=...)"
        ) from error
    action = ruling.action
    reason = ruling.reason
    by = ruling.decided_by or name
    if by in DECIDERS and not is_person:
        raise ValueError(
            f'"decided_by" of a Ruling must not be "group" or "person", whom a gate trusts; got {by!r}. Omit it, '
            "or ask with AskPerson"
        )
    cause: Cause = "person" if is_person else "arbiter"
    if action == "escalate":  # nobody settled it: the group's own cause stays
        cause = state["settled"]["cause"]
    kind = answer_kind(ruling.answer or "")
    if action == "answer" and kind != "answer":
        action = "abstain"
        does = "says nothing"
        if kind == "refusal":
            does = f'declines to answer ("{ruling.answer}")'
        reason = f"{by} {does}; {reason}"
    answer = ruling.answer
    choices = state["turn"]["choices"]
    if action == "answer" and choices is not None and not is_person:
        answer = parse_choice(answer or "", choices)
        if answer is None:
            action = "abstain"
            reason = f"{by} gives none of the choices; {reason}"
    decided_by = "group" if action == "escalate" else by
    former_reason = state["settled"]["reason"]
    settled = {
        **state["settled"],
        "action": action,
        "answer": answer if action == "answer" else None,
        "cause": cause,
        "ruling": reason,
        "reason": "; ".join(filter(None, (reason, former_reason))),
        "decided_by": decided_by,
    }
    event = events.Event(event="ruled", round=state["round"], action=action, decided_by=decided_by)
    events.emit(event)
    update: dict[str, Any] = {"settled": settled}
    if ruling.usage is not None:
        usage = Usage(
            input_tokens=ruling.usage.get("input_tokens", 0),
            output_tokens=ruling.usage.get("output_tokens", 0),
        )
        update["usages"] = [AgentTokens(agent=by, usage=usage, sampling=None)]
    return Command(goto=action, update=update)
