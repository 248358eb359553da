"""Owns the protocols of a policy, its optional hooks, and the `Decision` that it returns."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args, runtime_checkable

from coe_agents.checks import number, one_of
from coe_agents.measurement.measurement import Measurement
from coe_agents.text import quantity
from coe_agents.types import (
    CAUSES,
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Action,
    Cause,
)

ACTIONS: tuple[Action, ...] = get_args(Action)
Otherwise: TypeAlias = Literal["abstain", "escalate", "another_round"]
"""The action of a policy where it does not answer."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why.

    Attributes:
        action: "answer", "abstain", "escalate" or "another_round".
        answer: The answer; None unless the action is "answer".
        reason: Why, with the numbers, in one clause without a full stop. The graph prepends who says what.
        strategy: How another round is asked: the name of one of the graph's strategies; None leaves it to the regime.
        trusted_answer: Whether the answer was not chosen as the leading one of the ensemble mean, but by learned trust
            in the agents, or because it is the proposal that is judged; a tie does not forbid such an answer.
        cause: The same as `reason` in a word of `coe_agents.decision.CAUSES`; None counts as "policy".
    """

    action: Action
    answer: str | None = None
    reason: str = ""
    strategy: str | None = field(default=None, kw_only=True)
    trusted_answer: bool = field(default=False, kw_only=True)
    cause: Cause | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        one_of(self.action, '"action" of a Decision', ACTIONS)
        if self.cause is not None:
            one_of(self.cause, '"cause" of a Decision', CAUSES)


@runtime_checkable
class Policy(Protocol):
    """Anything that decides.

    Optional: the base class `Tunable`; and both attributes `aleatoric_threshold` and
    `epistemic_threshold`, in nats, the boundaries of the regimes, which a graph uses instead of the default ones.

    If several answers tie for the lead (`measurement.tied`), nothing is answered but a `trusted_answer`. The action is
    then the policy's `otherwise`, or "abstain" if the policy has none or has a table of
    `actions`.

    A policy that has `otherwise` or `actions` says by them whether it may escalate: see `never_escalates`.
    """

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the decision after `round` (from 0) of `max_rounds`.

        It must not block: an asynchronous run calls it on the event loop.
        """
        ...


class Tunable:
    """A policy with thresholds that a run may change by its context (`coe_agents.CoEContext`).

    Attributes:
        thresholds: Which of "max_coe", "aleatoric_threshold" and "epistemic_threshold" it has as attributes.
    """

    thresholds: tuple[str, ...] = ()

    def with_thresholds(self, thresholds: Mapping[str, float]) -> Self:
        """Returns the same policy with other values of some of its thresholds."""
        policy = copy.copy(self)
        for name, value in thresholds.items():
            where = f'"{name}" of {type(self).__name__}'
            setattr(policy, name, check_threshold(value, where=where))
        return policy


def change_thresholds(policy: Policy, thresholds: Mapping[str, float]) -> Policy:
    """Returns the policy with these thresholds.

    Those of the regime that the policy does not have change only the regime that is reported.
    """
    tunable: tuple[str, ...] = ()
    if isinstance(policy, Tunable):
        tunable = policy.thresholds
    for name in thresholds:
        is_of_policy = name == "max_coe" or hasattr(policy, name)
        if is_of_policy and name not in tunable:
            raise ValueError(
                f'"{name}" of the context needs a policy whose threshold it is; got {type(policy).__name__}, '
                f"with {' and '.join(tunable) or 'none'} to change. Omit it, or build the graph with another policy"
            )
    changed = {name: value for name, value in thresholds.items() if name in tunable}
    if changed and isinstance(policy, Tunable):
        return policy.with_thresholds(changed)
    return policy


def regime_thresholds(policy: object) -> tuple[float, float]:
    """Returns the aleatoric and epistemic threshold of a policy, or the default ones if it has neither."""
    names = [
        name for name in ("aleatoric_threshold", "epistemic_threshold") if hasattr(policy, name)
    ]
    if not names:
        return DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
    if len(names) == 1:
        raise TypeError(
            f'a policy must have both thresholds or neither; got {type(policy).__name__} with "{names[0]}" only. '
            "Add the other"
        )
    with_both: Any = policy
    return float(with_both.aleatoric_threshold), float(with_both.epistemic_threshold)


def without_tie(decision: Decision, measurement: Measurement, policy: object) -> Decision:
    """Returns a policy's decision, or its `otherwise` where it answers a tie.

    Only trust breaks a tie, never a name, an order or a seed: weights that differ, or an answer that a policy chose by
    what it learned about the agents (`trusted_answer`). A proposal that is judged needs no lead: it is compared with
    what it must have, so that a rival with as much does not block what less agreement would let pass.
    """
    if decision.action != "answer" or not measurement.tied or decision.trusted_answer:
        return decision
    reason = f"{len(measurement.tied)} answers share the lead, and a tie is never answered"
    if decision.reason:
        reason = f"{reason}; {decision.reason}"
    return Decision(otherwise(policy), None, reason, cause="tie")


def count_votes(
    measurement: Measurement, representative: str, min_votes: int, *, proposer: str | None
) -> tuple[bool, str]:
    """Returns whether enough agents other than its proposer vote for a proposal, and how many do, in words.

    Where no proposer is judged, whoever proposed it votes for it, too: one vote more is needed.
    """
    n_votes = len(measurement.proposals.voters(representative, besides=proposer))
    n_voters = len(measurement.proposals.votes.keys() - {proposer})
    n_wanted = min_votes
    voter = "member"
    if proposer is None:
        n_wanted = min_votes + 1
        voter = "agent"
    verb = "proposes" if n_votes == 1 else "propose"
    votes = f"{n_votes} of {quantity(n_voters, voter)} {verb} the same"
    return n_votes >= n_wanted, f"{votes}; at least {n_wanted} must"


def otherwise(policy: object) -> Action:
    """Returns the action of a policy where it does not answer."""
    if hasattr(policy, "actions"):
        return "abstain"
    action: Action = getattr(policy, "otherwise", "abstain")
    if action in ACTIONS and action != "answer":
        return action
    return "abstain"


def never_escalates(policy: object) -> bool:
    """Returns whether a policy says of itself, by `otherwise` or `actions`, that it escalates nothing.

    One that has neither says nothing, and may escalate.
    """
    said: list[object] = []
    if hasattr(policy, "otherwise"):
        said.append(policy.otherwise)
    actions = getattr(policy, "actions", None)
    if isinstance(actions, Mapping):
        said.extend(actions.values())
    return bool(said) and "escalate" not in said


def check_otherwise(action: Otherwise, *, policy: str, instead: str) -> Otherwise:
    """Returns the action of a policy where it does not answer; "answer" is refused, with what to do `instead`."""
    return one_of(action, f'"otherwise" of {policy}', get_args(Otherwise), advice=instead)


def check_threshold(value: float, *, where: str) -> float:
    """Returns `value` as a float; what cannot be a threshold in nats (no number, negative, NaN) is refused."""
    return number(
        value,
        f"{where}, in nats,",
        least=0,
        may_be_infinite=True,
        advice="Choose it on labelled questions",
    )


def quorum(n_agents: int, min_agents: int | None) -> int:
    """Returns how many agents must answer before the group may: `min_agents`, or a majority where it is None."""
    return majority(n_agents) if min_agents is None else min_agents


def majority(n_members: int) -> int:
    """Returns the fewest votes that are a strict majority of all members, the failed ones too.

    An even split is no majority.

    Example:
        >>> majority(3), majority(4)
        (2, 3)
    """
    return n_members // 2 + 1
