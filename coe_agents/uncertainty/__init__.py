"""Owns the mathematics: from cluster labels to entropies, Collaborative Entropy, its regime, interval and coordination.

Pure functions over arrays; needs NumPy and SciPy only. Everything is in nats unless it says otherwise.
"""

from coe_agents.uncertainty.collaborative import (
    CollaborativeEntropy,
    collaborative_entropy,
    ensemble_mean,
)
from coe_agents.uncertainty.coordination import Coordination, coordinate
from coe_agents.uncertainty.distributions import cluster_distributions
from coe_agents.uncertainty.divergences import (
    hellinger_distance,
    jensen_shannon_divergence,
    kl_divergence,
    wasserstein_distance,
)
from coe_agents.uncertainty.entropies import entropy, semantic_entropy
from coe_agents.uncertainty.intervals import CoEInterval, coe_interval
from coe_agents.uncertainty.regimes import regime

__all__ = [
    "CoEInterval",
    "CollaborativeEntropy",
    "Coordination",
    "cluster_distributions",
    "coe_interval",
    "collaborative_entropy",
    "coordinate",
    "ensemble_mean",
    "entropy",
    "hellinger_distance",
    "jensen_shannon_divergence",
    "kl_divergence",
    "regime",
    "semantic_entropy",
    "wasserstein_distance",
]
