"""Owns the mathematics: from cluster labels to entropies, Collaborative Entropy, its regime, interval and coordination.

Pure functions over arrays; needs NumPy and SciPy only. Everything is in nats unless it says otherwise.
"""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, collaborative_entropy
from coe_agents.uncertainty.coordination import Coordination, coordinate
from coe_agents.uncertainty.distributions import cluster_distributions
from coe_agents.uncertainty.divergences import (
    hellinger_distance,
    jensen_shannon_divergence,
    kl_divergence,
    wasserstein_distance,
)
from coe_agents.uncertainty.entropies import entropy, semantic_entropy
from coe_agents.uncertainty.intervals import coe_interval
from coe_agents.uncertainty.regimes import regime

__all__ = [
    "CollaborativeEntropy",
    "Coordination",
    "cluster_distributions",
    "coe_interval",
    "collaborative_entropy",
    "coordinate",
    "entropy",
    "hellinger_distance",
    "jensen_shannon_divergence",
    "kl_divergence",
    "regime",
    "semantic_entropy",
    "wasserstein_distance",
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
