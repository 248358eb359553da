"""Owns the learned gate: a linear score over what a `Measurement` shows, applied with NumPy alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coe_agents.policy.measurement import Measurement
from coe_agents.uncertainty.answers import first_highest

FEATURES = ("coe", "aleatoric", "epistemic", "surprisal", "margin", "n_clusters")
"""The features before each agent's support: four in nats, a share, and the logarithm of a count."""


def features(measurement: Measurement, agents: Sequence[str]) -> np.ndarray:
    """What a learned gate reads of a measurement.

    Args:
        measurement: Of the agents named, at least.
        agents: Whose support counts, in this order.

    Returns:
        Shape `(len(FEATURES) + len(agents),)`: CoE, U_A, U_E, the answer's surprisal, the margin between the two best
        supported clusters, the logarithm of the number of clusters, and each agent's probability of the chosen cluster.

    Raises:
        KeyError: An agent was not measured.
    """
    support = np.array(measurement.support)
    leading = int(first_highest(support))
    best = np.sort(support)[::-1]
    margin = best[0] - (best[1] if best.size > 1 else 0.0)
    chosen = measurement.representatives[leading]
    return np.array(
        [
            measurement.coe,
            measurement.aleatoric,
            measurement.epistemic,
            measurement.surprisal,
            margin,
            math.log(support.size),
            *(measurement.agents[name].distribution.get(chosen, 0.0) for name in agents),
        ]
    )


@dataclass(frozen=True, slots=True)
class LinearGate:
    """A logistic regression: P(wrong) = 1 / (1 + exp(-(intercept + sum_j coefficient_j (x_j - mean_j) / scale_j))).

    Attributes:
        agents: The agents whose support it reads.
        means: Of each feature, for standardising.
        scales: Of each feature; above 0.
        coefficients: One per feature; above 0 where more of it makes a wrong answer likelier.
        intercept: In log-odds.
    """

    agents: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    def __post_init__(self) -> None:
        n_features = len(FEATURES) + len(self.agents)
        numbers = (*self.means, *self.scales, *self.coefficients, self.intercept)
        if {len(self.means), len(self.scales), len(self.coefficients)} != {n_features}:
            raise ValueError(
                f"a gate over {len(self.agents)} agents must have {n_features} means, scales and coefficients; "
                f"{len(self.means)}, {len(self.scales)} and {len(self.coefficients)} came. Calibrate it anew"
            )
        if not np.isfinite(numbers).all() or min(self.scales) <= 0.0:
            raise ValueError("a gate must hold finite numbers and scales above 0; others came. Calibrate it anew")

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns the estimated probability of a wrong answer, in [0, 1]; higher = less sure.

        Raises:
            KeyError: An agent of the gate was not measured.
        """
        standardised = (features(measurement, self.agents) - self.means) / self.scales
        log_odds = self.intercept + float(standardised @ np.array(self.coefficients))
        return 1.0 / (1.0 + math.exp(-min(max(log_odds, -500.0), 500.0)))
