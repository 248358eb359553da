"""Owns the node that decides: it applies the policy, and the rules that no policy can overrule."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from langgraph.types import Command

from coe_agents._plurals import quantity
from coe_agents.checks import instance
from coe_agents.clustering import answer_kind
from coe_agents.graph import events
from coe_agents.graph.limits import Bounds, seconds_used
from coe_agents.graph.nodes.measure import fields_of, measurement_of
from coe_agents.graph.rounds import agents_counted_as
from coe_agents.graph.run_settings import RunSettings
from coe_agents.graph.state import CoEState
from coe_agents.policy import Decision, Measurement, Policy
from coe_agents.policy.base import without_tie
from coe_agents.policy.wording import who_says_what
from coe_agents.rounds import Clarify, Strategies
from coe_agents.types import ANSWERABLE

_NO_ANSWER = {"refusal": "a refusal is not an answer", "empty": "an empty response is not an answer"}


def coordinate_node(
    settings: RunSettings,
    *,
    strategies: Strategies,
    routes: Collection[str],
) -> Callable[[CoEState], Command[str]]:
    """Returns the node that decides, by the policy within what it cannot overrule, and goes to one of `routes`."""

    def coordinate(state: CoEState) -> Command[str]:
        now = settings.of(state)
        names, min_agents, bounds = now.agents, now.quorum, now.bounds
        answering = {response["agent"] for response in state["responses"] if response["error"] is None}
        who, regime = "", None  # without a quorum, no regime
        if len(answering) < min_agents:
            whys = dict.fromkeys(agents_counted_as(state, "not"), " (its temperature has no effect)")
            missing = ", ".join(f"{name}{whys.get(name, '')}" for name in names if name not in answering)
            answered = f"{len(answering)} of {quantity(len(names), 'agent')} answered"
            wanted = f"{answered}, but {min_agents} must; missing: {missing}"
            late = bounds.bound_on_time(state)
            decision = Decision("abstain", None, f"{wanted}; {late}" if late else wanted)
        elif state["measured"] is None:
            decision = Decision("abstain", None, "no agent with a weight above 0 answered")
        else:
            measurement = measurement_of(state)
            decision, regime = _decide(now.policy, measurement, state, bounds), measurement.regime
            who = who_says_what(measurement, n_agents=len(names))
        # an event contains no text of a response: only the decision says who gave which answer
        texts = [text for row in state["responses"] for text in (row["text"], row["answer"]) if text]
        events.emit_decision(state["round"], decision, texts)
        verdict = fields_of(decision) | {"reason": "; ".join(filter(None, (who, decision.reason))), "regime": regime}
        goto = _next_node(decision, state["measured"], strategies, routes)
        return Command(goto=goto, update={"verdict": verdict, "elapsed": seconds_used(state)})

    return coordinate


def _next_node(
    decision: Decision, measured: Mapping[str, Any] | None, strategies: Strategies, routes: Collection[str]
) -> str:
    """Returns the node of the action, or the one that comes before it."""
    if decision.action == "escalate" and "escalation" in routes:
        return "escalation"
    if decision.action == "another_round" and measured is not None:
        _, strategy = strategies.of(measured["regime"], wanted=decision.strategy)
        if isinstance(strategy, Clarify) and "clarify" in routes:
            return "clarify"
    return decision.action


def _decide(policy: Policy, measurement: Measurement, state: CoEState, bounds: Bounds) -> Decision:
    """Returns the policy's decision, within what no policy can overrule: ties, refusals, and the bounds."""
    decision = policy.decide(measurement, round=state["round"], max_rounds=bounds.max_rounds)
    where, advice = f'what "decide" of {type(policy).__name__} returns', "Return Decision(action, answer, reason)"
    instance(decision, Decision, where, what="a Decision", advice=advice)
    decision = without_tie(decision, measurement, policy)
    if decision.action == "another_round" and (bound := bounds.bound_on_rounds(state)):
        return Decision("abstain", None, "; ".join(filter(None, (decision.reason, bound))))
    if decision.action != "answer":
        return replace(decision, answer=None)
    answer = measurement.answer if decision.answer is None else decision.answer
    kind = measurement.answer_kind if answer == measurement.answer else answer_kind(answer)
    if kind not in ANSWERABLE:
        return Decision("abstain", None, "; ".join(filter(None, (_NO_ANSWER[kind], decision.reason))))
    return replace(decision, answer=answer)
