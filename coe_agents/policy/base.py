"""Owns the protocol of a policy and what it gives back."""

from dataclasses import dataclass
from typing import Any, Protocol, get_args, runtime_checkable

from coe_agents.policy.measurement import Measurement
from coe_agents.types import Action

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why.

    Attributes:
        action: "answer", "abstain", "escalate" or "another_round".
        answer: The answer; None unless the action is "answer".
        reason: Why, with the numbers, in one clause without a full stop. The graph puts who says what before it.
        strategy: How another round is to be asked: the name of one of the graph's strategies, or "clarify", which asks
            the user what is meant; None leaves it to the regime.
        trusted_answer: Whether the answer was chosen by learned trust in the agents, not by the ensemble mean; a tie of
            the ensemble mean does not forbid such an answer.
    """

    action: Action
    answer: str | None = None
    reason: str = ""
    strategy: str | None = None
    trusted_answer: bool = False

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(
                f'"action" of a Decision must be one of {", ".join(ACTIONS)}; {self.action!r} came. '
                "Check what the policy returns"
            )


@runtime_checkable
class Policy(Protocol):
    """Anything that decides; its `aleatoric_threshold` and `epistemic_threshold`, if any, set the regime.

    A graph never answers where several answers share the lead (`measurement.tied`), unless by trust: it then does the
    policy's `otherwise`, an action, or abstains where the policy has none, or has a table of `actions`. Thresholds in
    nats are compared with `measurement.comparable_coe` and `measurement.comparable_epistemic`, which are `coe` and
    `epistemic` under "kl".

    Its `is_settled(measurement) -> bool`, if any, tells by the measurement's `forecast` whether more responses could
    change the decision; adaptive sampling stops where they could not.
    """

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the decision after `round` (from 0) of `max_rounds`.

        It only computes: an asynchronous run calls it on the event loop.
        """
        ...


def without_tie(decision: Decision, measurement: Measurement, policy: object) -> Decision:
    """Returns the decision of a policy, but where it answers a tie: what the policy does otherwise.

    Only trust breaks a tie, never a name, an order or a seed: weights that differ, or an answer that a policy chose by
    what it learned of the agents (`trusted_answer`).
    """
    if decision.action != "answer" or not measurement.tied or decision.trusted_answer:
        return decision
    reason = f"{len(measurement.tied)} answers share the lead, and a tie is never answered"
    return Decision(_otherwise(policy), None, f"{reason}; {decision.reason}" if decision.reason else reason)


def _otherwise(policy: object) -> Action:
    """Returns what a policy does where it does not answer."""
    action: Any = getattr(policy, "otherwise", None)
    is_action = isinstance(action, str) and action in ACTIONS and action != "answer"
    return action if is_action and not hasattr(policy, "actions") else "abstain"


def check_action(action: Action, *, where: str) -> Action:
    """Returns `action` if there is such a one.

    Raises:
        ValueError: If not.
    """
    if action not in ACTIONS:
        raise ValueError(f"{where} must be one of {', '.join(ACTIONS)}; {action!r} came. Choose one of them")
    return action


def check_threshold(value: float, *, where: str) -> float:
    """Returns `value` if it can be a threshold in nats.

    Raises:
        ValueError: If it is negative or NaN.
    """
    if not value >= 0:
        raise ValueError(
            f"{where} must be a number of nats of at least 0; {value!r} came. Choose it on labelled questions"
        )
    return float(value)
