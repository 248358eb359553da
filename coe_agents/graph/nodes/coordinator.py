"""Owns the node that decides, and chooses the next node by it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from langgraph.types import Command

from coe_agents.decision.group_decision import agents_as_data
from coe_agents.errors import GroupUnavailableError
from coe_agents.graph import events
from coe_agents.graph.answer_judge import GivenClaims
from coe_agents.graph.context import RunSettings
from coe_agents.graph.options import OnUnavailable
from coe_agents.graph.state import (
    CoEState,
    agents_counted_as,
    fields_of,
    measurement_of,
    seconds_used,
    spent_of,
)
from coe_agents.measurement.wording import is_unlike, lacking_in_words, who_says_what
from coe_agents.policy import Decision, Measurement, settle
from coe_agents.rounds.strategies import Clarify, Strategies
from coe_agents.types import Response

_UNLIKE = (
    "most answers have several words, and few are equal: they are compared word for word, "
    "which does not suit sentences"
)
_FOR_SENTENCES = (
    "use --answers sentences, answers=sentences(judge) in Python, "
    'or [answers] kind = "sentences" in a file'
)
_FOR_TINYWORLD = (
    "models of tinyworld need the bare question, and their own clusterer: omit --answers, pass "
    "clusterer=tinyworld_clusterer() in Python, or write in a file "
    '[clusterer] kind = "entailment" and model = "tinyworld"'
)


def advice_on_sentences(agents: Iterable[object]) -> str:
    """Returns what is said where answers are sentences, and compared word for word; no model of tinyworld can judge."""
    is_of_tinyworld = all(getattr(agent, "is_of_tinyworld", False) for agent in agents)
    return f"{_UNLIKE}; {_FOR_TINYWORLD if is_of_tinyworld else _FOR_SENTENCES}"


def coordinator_node(
    settings: RunSettings,
    *,
    strategies: Strategies,
    routes: Collection[str],
    on_unavailable: OnUnavailable,
    on_sentences: str = "",
    judges_claims: bool = False,
) -> Callable[[CoEState], Command[str]]:
    """Returns the node that decides, by the policy within what it cannot overrule, and goes to one of `routes`.

    `on_sentences`: what is said where answers are sentences; "" of a clusterer that suits them. `judges_claims`:
    whether a node before this one judges long answers; what it leaves of one then is the decision, in place of the
    policy's.
    """

    def coordinator(state: CoEState) -> Command[str]:
        now = settings.of(state)
        answered = {row["agent"] for row in state["responses"] if row["error"] is None}
        invalid = {row["agent"] for row in state["responses"] if row.get("fault") == "invalid"}
        if on_unavailable == "raise" and not answered and not invalid:
            raise _unavailable(state["responses"])

        spent = spent_of(state, now.rules.cost_budget)
        measurement = None
        if state["measured"] is not None:
            measurement = measurement_of(state, tokens_left=now.bounds.tokens_left(spent))
        claimed = state.get("claimed") if judges_claims else None
        remarks = dict.fromkeys(invalid, " (no valid reply)")
        for agent in agents_counted_as(state, "not"):
            remarks[agent] = " (its temperature has no effect)"
        decision = settle(
            now.policy if claimed is None else GivenClaims(claimed),
            measurement,
            now.rules,
            asked=now.agents,
            answered=answered,
            spent=spent,
            remarks=remarks,
        )

        who = ""
        regime = None
        if measurement is not None and len(answered) >= now.quorum:
            regime = measurement.regime
            if claimed is None:
                who = who_says_what(measurement, n_agents=len(now.agents))
                may_be_unlike = on_sentences and decision.action != "answer"
                if may_be_unlike and is_unlike(measurement):
                    decision = replace(decision, reason=f"{decision.reason}; {on_sentences}")
        _emit(state, decision)

        measured_agents = (state["measured"] or {}).get("agents", {})
        lacking = lacking_in_words(agents_as_data(measured_agents, state["usages"]).values())
        unjudged = state.get("unjudged")
        reason = "; ".join(filter(None, (who, lacking, unjudged, decision.reason)))
        settled = {**fields_of(decision), "reason": reason, "regime": regime}
        clock = {**state["clock"], "elapsed": seconds_used(state)}
        goto = next_node(decision, measurement)
        return Command(goto=goto, update={"settled": settled, "clock": clock})

    def next_node(decision: Decision, measurement: Measurement | None) -> str:
        if decision.action == "escalate" and "escalation" in routes:
            return "escalation"
        if decision.action == "another_round" and "clarify" in routes and measurement is not None:
            _, strategy = strategies.of(measurement.regime, wanted=decision.strategy)
            if isinstance(strategy, Clarify):
                return "clarify"
        return decision.action

    return coordinator


def _unavailable(responses: Sequence[Response]) -> GroupUnavailableError:
    reasons = "; ".join(f"{row['agent']}: {row['error']}" for row in responses)
    hint = '"coe-agents doctor" tries each alone, and says what to do'
    return GroupUnavailableError(f"no agent of the group answered. {reasons}", hint=hint)


def _emit(state: CoEState, decision: Decision) -> None:
    """Emits the decision; an event contains no text of a response, so that only the decision says who said what."""
    texts: set[str] = set()
    for row in state["responses"]:
        texts |= {row["text"], row["answer"] or ""}
    events.emit_decision(state["round"], decision, texts - {""})
