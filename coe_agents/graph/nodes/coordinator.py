"""Owns the node that decides, and chooses the next node by it."""

from collections.abc import Callable, Collection
from dataclasses import replace
from operator import itemgetter

from langgraph.types import Command

from coe_agents.errors import GroupUnavailableError
from coe_agents.graph import events
from coe_agents.graph.context import RunSettings
from coe_agents.graph.nodes.claims import GivenClaims
from coe_agents.graph.options import OnUnavailable
from coe_agents.graph.round_state import (
    agents_counted_as,
    fields_of,
    measurement_of,
    seconds_used,
    spent_of,
)
from coe_agents.graph.state import CoEState
from coe_agents.measurement.wording import is_unlike, lacking_in_words, who_says_what
from coe_agents.policy import settle
from coe_agents.rounds.strategies import Clarify, Strategies

_UNLIKE = (
    "most answers have several words, and few are equal: they are compared word for word, which does not suit "
    'sentences; use --answers sentences, answers=sentences(judge) in Python, or [answers] kind = "sentences" in a file'
)


def coordinator_node(
    settings: RunSettings,
    *,
    strategies: Strategies,
    routes: Collection[str],
    on_unavailable: OnUnavailable,
    compares_words: bool = False,
    judges_claims: bool = False,
) -> Callable[[CoEState], Command[str]]:
    """Returns the node that decides, by the policy within what it cannot overrule, and goes to one of `routes`.

    `compares_words`: whether the clusterer compares answers word for word. `judges_claims`: whether a node before this
    one judges long answers; what it leaves of one then is the decision, in place of the policy's.
    """

    def coordinator(state: CoEState) -> Command[str]:
        now = settings.of(state)
        rows = state["responses"]
        answered = {row["agent"] for row in rows if row["error"] is None}
        failed = [(row["agent"], row["error"]) for row in rows if row["error"] is not None]
        invalid = {row["agent"] for row in rows if row.get("fault") == "invalid"}
        if not answered and not invalid and on_unavailable == "raise":
            reasons = "; ".join(f"{agent}: {error}" for agent, error in failed)
            hint = '"coe-agents doctor" tries each alone, and says what to do'
            raise GroupUnavailableError(f"no agent of the group answered. {reasons}", hint=hint)
        spent, measurement = spent_of(state), None
        if state["measured"] is not None:
            measurement = measurement_of(state, tokens_left=now.bounds.tokens_left(spent))
        claimed = state.get("claimed") if judges_claims else None
        decision = settle(
            now.policy if claimed is None else GivenClaims(claimed),
            measurement,
            now.rules,
            asked=now.agents,
            answered=answered,
            spent=spent,
            remarks={
                **dict.fromkeys(invalid, " (no valid reply)"),
                **dict.fromkeys(
                    agents_counted_as(state, "not"), " (its temperature has no effect)"
                ),
            },
        )
        who, regime = "", None  # without a quorum, no regime
        if measurement is not None and len(answered) >= now.quorum:
            regime = measurement.regime
            who = who_says_what(measurement, n_agents=len(now.agents)) if claimed is None else ""
            if (
                claimed is None
                and decision.action != "answer"
                and compares_words
                and is_unlike(measurement)
            ):
                decision = replace(decision, reason=f"{decision.reason}; {_UNLIKE}")
        lacking = lacking_in_words((state["measured"] or {}).get("agents", {}).values())
        # an event contains no text of a response: only the decision says who gave which answer
        texts = {*map(itemgetter("text"), rows), *map(itemgetter("answer"), rows)}
        events.emit_decision(state["round"], decision, list(filter(None, texts)))
        reason = "; ".join(filter(None, (who, lacking, decision.reason)))
        verdict = fields_of(decision) | {"reason": reason, "regime": regime}
        clock = {**state["clock"], "elapsed": seconds_used(state)}
        goto: str = decision.action
        if goto == "escalate" and "escalation" in routes:
            goto = "escalation"
        elif goto == "another_round" and measurement is not None:
            _, strategy = strategies.of(measurement.regime, wanted=decision.strategy)
            if isinstance(strategy, Clarify) and "clarify" in routes:
                goto = "clarify"
        return Command(goto=goto, update={"verdict": verdict, "clock": clock})

    return coordinator
