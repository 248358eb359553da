"""Owns the policies that compare uncertainty with thresholds in nats: `ThresholdPolicy` and `RegimePolicy`."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.checks import one_of
from coe_agents.measurement.measurement import Measurement
from coe_agents.measurement.wording import beside, coe_in_words, lacks_most, regime_in_words
from coe_agents.policy.base import (
    ACTIONS,
    Decision,
    Otherwise,
    Tunable,
    check_otherwise,
    check_threshold,
    without_tie,
)
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    REGIMES,
    Action,
    Regime,
)
from coe_agents.uncertainty import entropy


class ThresholdPolicy(Tunable):
    """Answers if CoE is at most `max_coe`; if it is higher, or several answers tie, the action is `otherwise`.

    Args:
        max_coe: The threshold in nats. With 0, all responses of all agents must be in one cluster. With uniform weights
            CoE is at most log(n_clusters). Sure agents that are split in two have at most log(2): a threshold above
            that answers some splits, of which a graph warns. `math.inf` answers all but ties.
        otherwise: "abstain", "escalate" or "another_round".

    Example:
        >>> ThresholdPolicy(0.5, otherwise="escalate")
        ThresholdPolicy(0.5, otherwise='escalate')
    """

    thresholds = ("max_coe",)

    @refuses_removed
    def __init__(self, max_coe: float, *, otherwise: Otherwise = "abstain") -> None:
        self.max_coe = check_threshold(max_coe, where='"max_coe" of ThresholdPolicy')
        advice = 'To answer always, raise "max_coe"'
        self.otherwise = check_otherwise(otherwise, policy="ThresholdPolicy", instead=advice)

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer" with the leading cluster's answer, or `otherwise`, also where several share the lead."""
        limit = f"{self.max_coe:g} nats"
        if measurement.coe <= self.max_coe:
            coe = coe_in_words(measurement, limit=self.max_coe)
            reason = f"confident enough: {coe} is at most {limit}"
            decision = Decision("answer", measurement.answer, reason, cause="confident")
            return without_tie(decision, measurement, self)
        coe = coe_in_words(measurement, limit=self.max_coe, with_parts=True)
        reason = f"not confident enough: {coe} exceeds {limit}"
        return Decision(self.otherwise, None, reason, cause="uncertain")

    def caution(self, weights: Sequence[float]) -> str | None:
        """Returns a clause where agents of these weights that are split in two never exceed the threshold, else None.

        Sure agents that are split in two have at most the CoE max over subsets S of H(w_S, 1 - w_S), in nats; it is
        computed for up to 16 agents, and log(2) for more.
        """
        trusted = np.array([weight for weight in weights if weight > 0])
        if len(trusted) < 2:
            return None
        highest = math.log(2)
        if len(trusted) <= 16:
            sums = np.zeros(1)
            for share in trusted / trusted.sum():
                sums = np.concatenate([sums, sums + share])
            splits = np.stack([sums, 1.0 - sums], axis=-1)
            highest = float(entropy(splits).max())
        if not highest <= self.max_coe < math.inf:
            return None
        return (
            f"a max_coe of {self.max_coe:g} answers agents that are split in two, whose CoE is at most {highest:.3f} "
            "nats. Lower it; or answer in consensus only, by a RegimePolicy; or make it infinite, if this is meant"
        )

    def __repr__(self) -> str:
        return f"ThresholdPolicy({self.max_coe!r}, otherwise={self.otherwise!r})"


class RegimePolicy(Tunable):
    """Acts by the regime (Section 4 of the paper): (aleatoric, epistemic) against two thresholds.

    By default it answers in consensus only, which no split between agents passes: docs/results/defaults.md has what it
    answers of real responses, and how much of that is wrong.

    Args:
        aleatoric_threshold: In nats; above it the agents count as uncertain within themselves.
        epistemic_threshold: In nats; above it they count as disagreeing.
        actions: The action of each regime; by default "answer" for "consensus" and "abstain" for the others. A tie is
            not answered: where several answers share the lead, "answer" becomes "abstain".

    Example:
        >>> RegimePolicy(0.5, 0.3, actions={"conflict": "escalate"}).actions["unknown"]
        'abstain'
    """

    thresholds = ("aleatoric_threshold", "epistemic_threshold")

    @refuses_removed
    def __init__(
        self,
        aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
        epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
        *,
        actions: Mapping[Regime, Action] | None = None,
    ) -> None:
        where = '"{}" of RegimePolicy'
        self.aleatoric_threshold = check_threshold(
            aleatoric_threshold, where=where.format("aleatoric_threshold")
        )
        self.epistemic_threshold = check_threshold(
            epistemic_threshold, where=where.format("epistemic_threshold")
        )
        self.actions: dict[Regime, Action] = dict.fromkeys(REGIMES, "abstain")
        self.actions["consensus"] = "answer"
        for regime, action in (actions or {}).items():
            one_of(regime, 'a key of "actions"', REGIMES)
            self.actions[regime] = one_of(
                action, f'"actions" of RegimePolicy at {regime!r}', ACTIONS
            )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns the action of the measurement's regime."""
        action = self.actions[measurement.regime]
        reason = self._reason(measurement)
        if action == "answer":
            answered = Decision(action, measurement.answer, reason, cause="confident")
            return without_tie(answered, measurement, self)
        return Decision(action, None, reason, cause="uncertain")

    def _reason(self, measurement: Measurement) -> str:
        """Returns the numbers with their thresholds; "consensus" is not named, since it explains no abstention."""
        parts = (
            ("aleatoric", measurement.aleatoric, self.aleatoric_threshold, "within models"),
            ("epistemic", measurement.epistemic, self.epistemic_threshold, "between models"),
        )
        clauses: list[str] = []
        for name, value, threshold, where in parts:
            relation = "exceeds" if value > threshold else "is at most"
            clauses.append(
                f"{name} {beside(value, threshold)} {where} {relation} {threshold:g} nats"
            )
        numbers = ", ".join(clauses)
        agents = measurement.agents.values()
        if any(lacks_most(agent.n_responses, agent.lacking) for agent in agents):
            return numbers  # an agent without a view neither agrees nor disagrees
        words = regime_in_words(
            measurement.regime,
            [agent.entropy for agent in agents],
            n_agents=measurement.n_agents,
            threshold=self.aleatoric_threshold,
        )
        if measurement.regime == "consensus":
            return f"{words}: {numbers}"
        return f"{measurement.regime}, {words}: {numbers}"

    def unreachable(self, *, n_agents: int) -> tuple[Regime, ...]:
        """Returns the regimes that `n_agents` can't be in: the epistemic part is at most log(n_agents)."""
        return ("conflict", "unknown") if self.epistemic_threshold >= math.log(n_agents) else ()

    def __repr__(self) -> str:
        return f"RegimePolicy({self.aleatoric_threshold!r}, {self.epistemic_threshold!r}, actions={self.actions!r})"
