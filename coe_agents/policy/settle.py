"""Owns the step from a measurement and a policy to a decision: the graph, the replay and the council take this one.

A policy only proposes. What no policy can overrule is applied here, in one order: a quorum, the ties, the limits of the
caller, the kinds that may be answered, whose proposal is judged, its votes, and the bounds of the run.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coe_agents.checks import instance
from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.measurement import Measurement, leading_cluster
from coe_agents.measurement.wording import beside, coe_in_words
from coe_agents.policy.base import Decision, Policy, count_votes, otherwise, quorum, without_tie
from coe_agents.policy.bounds import THRESHOLDS, Bounds, CostBudget, Spent
from coe_agents.text import quantity
from coe_agents.types import ANSWERABLE, Action, AnswerKind, Cause

_NO_ANSWER: Mapping[AnswerKind, tuple[Cause, str]] = {
    "refusal": ("refusal", "a refusal is not an answer"),
    "empty": ("empty", "an empty response is not an answer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds whatever a policy says.

    Attributes:
        bounds: Of the run, which the policy is told.
        limits: Of the caller, at least as strict; None where the caller sets none. The policy is not told.
        min_agents: How many agents must answer; None for a majority of the agents that are asked.
        min_votes: How many agents other than its proposer must vote for an answer; None for no such number.
        cost_budget: Of the run; None for none.
    """

    bounds: Bounds = field(default_factory=lambda: Bounds(max_rounds=1))
    limits: Bounds | None = None
    min_agents: int | None = None
    min_votes: int | None = None
    answerable: Collection[AnswerKind] = ANSWERABLE
    cost_budget: CostBudget | None = None


def settle(
    policy: Policy,
    measurement: Measurement | None,
    rules: Rules,
    *,
    asked: Sequence[str],
    answered: Collection[str],
    spent: Spent,
    remarks: Mapping[str, str] | None = None,
) -> Decision:
    """Returns the decision of a policy on a measurement, within what no policy can overrule.

    It is pure but for `policy.decide`. The answer of the decision may be given as it is.

    Args:
        policy: Proposes the decision.
        measurement: Of the responses so far; None if no agent of a weight above 0 answered. Where its proposals
            have a `proposer`, only that agent's may be answered.
        rules: What holds whatever the policy says.
        asked: The names of the agents that were asked.
        answered: Those of them that gave a response.
        spent: The cost so far; its `round` is the round that the policy is told.
        remarks: What to add to the name of an agent that did not answer.

    Raises:
        TypeError: If the policy returns something else than a `Decision`.

    Example:
        >>> from coe_agents.policy import ThresholdPolicy, measure
        >>> from coe_agents.testing import create_response
        >>> said = measure([create_response("a", "Lyon"), create_response("b", "Lyon")], [0, 0])
        >>> settle(ThresholdPolicy(0.5), said, Rules(), asked="ab", answered="ab", spent=Spent()).answer
        'Lyon'
    """
    n_wanted = quorum(len(asked), rules.min_agents)
    if len(answered) < n_wanted:
        late = rules.bounds.end_of_time(spent)
        return _without_quorum(asked, answered, n_wanted, late, remarks or {})
    if measurement is None:
        reason = "no agent with a weight above 0 answered"
        return Decision("abstain", None, reason, cause="unavailable")

    max_rounds = rules.bounds.max_rounds or 1
    decision = policy.decide(measurement, round=spent.round, max_rounds=max_rounds)
    where = f'what "decide" of {type(policy).__name__} returns'
    advice = "Return Decision(action, answer, reason)"
    instance(decision, Decision, where, what="a Decision", advice=advice)
    if decision.cause is None:
        decision = replace(decision, cause="policy")
    decision = without_tie(decision, measurement, policy)
    decision = _within(decision, measurement, rules.limits, policy)
    if decision.action == "answer":
        decision = _if_it_may_be_given(decision, measurement, rules, policy)
    if decision.action == "another_round":
        decision = _within_bounds(decision, rules, spent, policy)
    return decision if decision.action == "answer" else replace(decision, answer=None)


def _if_it_may_be_given(
    decision: Decision, measurement: Measurement, rules: Rules, policy: Policy
) -> Decision:
    """Returns the decision with its answer, or what takes its place where that may not be given."""
    answer = measurement.answer if decision.answer is None else decision.answer
    kind = measurement.answer_kind if answer == measurement.answer else answer_kind(answer)
    if kind not in rules.answerable:
        if kind in _NO_ANSWER:  # that the policy was confident of it is no reason
            return _abstain(*_NO_ANSWER[kind])
        return _abstain(
            "invalid", f"an answer of the kind {kind} is not wanted here", decision.reason
        )
    judged = measurement.proposals.proposer
    chosen = representative_of(measurement, answer)
    if judged is not None and measurement.proposals.by_agent.get(judged) != chosen:
        why = f"the group is confident of another action than the {judged}'s"
        return _abstain("other_proposal", why, decision.reason)
    if rules.min_votes is not None:
        is_enough, votes = count_votes(measurement, chosen, rules.min_votes, proposer=judged)
        if not is_enough:
            return Decision(otherwise(policy), None, votes, cause="votes")
    return replace(decision, answer=answer)


def representative_of(measurement: Measurement, answer: str | None) -> str:
    """Returns the representative of the cluster that a decision answers with; None stands for the leading one."""
    if answer is None or answer == measurement.answer:
        return measurement.representatives[leading_cluster(measurement)]
    return answer


def _without_quorum(
    asked: Sequence[str],
    answered: Collection[str],
    n_wanted: int,
    late: str | None,
    remarks: Mapping[str, str],
) -> Decision:
    missing = ", ".join(f"{name}{remarks.get(name, '')}" for name in asked if name not in answered)
    n_asked = quantity(len(asked), "agent")
    why = f"{len(answered)} of {n_asked} answered, but {n_wanted} must; missing: {missing}"
    cause: Cause = "quorum" if answered else "unavailable"
    return _abstain("deadline" if late else cause, why, late)


def _within(
    decision: Decision, measurement: Measurement, limits: Bounds | None, policy: Policy
) -> Decision:
    """Returns the decision, or the policy's `otherwise` in place of an answer above a limit of the caller."""
    if decision.action != "answer" or limits is None:
        return decision
    measured = (measurement.coe, measurement.aleatoric, measurement.epistemic)
    for name, value in zip(THRESHOLDS, measured, strict=True):
        limit = getattr(limits, name)
        if limit is None:
            limit = math.inf
        if not value <= limit:  # nor an answer whose uncertainty is no number
            what = f"{name.partition('_')[0]} {beside(value, limit)}"
            if name == "max_coe":
                what = coe_in_words(measurement, limit=limit)
            reason = f"{what} exceeds {limit:g} nats, the limit of this request"
            return Decision(otherwise(policy), None, reason, cause="limit_of_caller")
    return decision


def _within_bounds(decision: Decision, rules: Rules, spent: Spent, policy: Policy) -> Decision:
    """Returns the wish for another round, or what takes its place where a bound of the run forbids one."""
    in_force = [rules.bounds]
    if rules.limits is not None:
        in_force.append(rules.limits)
    for bounds in in_force:
        clause = bounds.end_of_rounds(spent)
        if clause is not None:
            cause = bounds.cause_of_end(spent)
            action = "abstain" if cause == "rounds" else otherwise(policy)
            return _no_further_round(action, decision, clause, cause)

    clause = None if rules.cost_budget is None else rules.cost_budget.end(spent)
    if clause is not None:
        return _no_further_round(otherwise(policy), decision, clause, "budget")
    return decision


def _no_further_round(action: Action, decision: Decision, clause: str, cause: Cause) -> Decision:
    """Returns what takes the place of another round; a policy whose `otherwise` is another round abstains."""
    if action == "another_round":
        action = "abstain"
    return Decision(action, None, f"{decision.reason}; {clause}", cause=cause)


def _abstain(cause: Cause, *clauses: str | None) -> Decision:
    return Decision("abstain", None, "; ".join(filter(None, clauses)), cause=cause)
