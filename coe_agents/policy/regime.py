"""Owns `RegimePolicy`: a table from the regime to the action."""

import math
from collections.abc import Mapping
from itertools import product
from typing import get_args

from coe_agents.policy.base import Decision, check_action, check_threshold
from coe_agents.policy.measurement import Measurement
from coe_agents.types import Action, Regime
from coe_agents.uncertainty import regime as regime_at

REGIMES: tuple[Regime, ...] = get_args(Regime)

_MEANING: Mapping[Regime, str] = {
    "consensus": "the agents are sure and agree",
    "conflict": "the agents are sure of different answers",
    "ambiguous": "the agents hesitate between the same answers",
    "unknown": "the agents are unsure and disagree",
}


class RegimePolicy:
    """Acts by the regime (Section 4 of the paper): where (aleatoric, epistemic) lies against two thresholds.

    Args:
        aleatoric_threshold: In nats; above it the agents count as unsure, each by itself.
        epistemic_threshold: In nats; above it they count as disagreeing.
        actions: The action of each regime; those left out abstain, but for "consensus", which answers.

    Example:
        >>> RegimePolicy(0.5, 0.3, actions={"conflict": "escalate"}).actions["unknown"]
        'abstain'
    """

    def __init__(
        self,
        aleatoric_threshold: float,
        epistemic_threshold: float,
        *,
        actions: Mapping[Regime, Action] | None = None,
    ) -> None:
        self.aleatoric_threshold = check_threshold(aleatoric_threshold, where='"aleatoric_threshold" of RegimePolicy')
        self.epistemic_threshold = check_threshold(epistemic_threshold, where='"epistemic_threshold" of RegimePolicy')
        self.actions: dict[Regime, Action] = dict.fromkeys(REGIMES, "abstain")
        self.actions["consensus"] = "answer"
        for regime, action in (actions or {}).items():
            if regime not in REGIMES:
                raise ValueError(
                    f'the keys of "actions" must be among {", ".join(REGIMES)}; {regime!r} came. Correct the key'
                )
            self.actions[regime] = check_action(action, where=f'"actions" of RegimePolicy at {regime!r}')

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the action of the measurement's regime."""
        action = self.actions[measurement.regime]
        reason = (
            f"{measurement.regime}: {_MEANING[measurement.regime]} (aleatoric {measurement.aleatoric:.3f} against "
            f"{self.aleatoric_threshold:g}, epistemic {measurement.epistemic:.3f} against {self.epistemic_threshold:g})"
        )
        return Decision(action, measurement.answer if action == "answer" else None, reason)

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether all regimes that the measurement is expected to end in have one action.

        For "answer" the leading answer must stay as well; for "another_round", whose strategy hangs on the regime, the
        regime.
        """
        forecast = measurement.forecast
        if forecast is None:
            return False
        thresholds = {
            "aleatoric_threshold": self.aleatoric_threshold,
            "epistemic_threshold": self.epistemic_threshold,
        }
        regimes = {regime_at(*parts, **thresholds) for parts in product(forecast.aleatoric, forecast.epistemic)}
        actions = {self.actions[one] for one in regimes}
        if actions == {"another_round"}:
            return len(regimes) == 1
        return len(actions) == 1 and (actions != {"answer"} or forecast.keeps_lead)

    def unreachable(self, *, n_agents: int) -> tuple[Regime, ...]:
        """Returns the regimes that `n_agents` can never be in: the epistemic part is at most log(n_agents) under KL."""
        return ("conflict", "unknown") if self.epistemic_threshold >= math.log(n_agents) else ()

    def __repr__(self) -> str:
        return f"RegimePolicy({self.aleatoric_threshold!r}, {self.epistemic_threshold!r}, actions={self.actions!r})"
