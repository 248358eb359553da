"""Owns the mathematics: from cluster labels to entropies, Collaborative Entropy, its regime, interval and coordination.

Pure functions over arrays; needs NumPy and SciPy only. Everything is in nats unless it says otherwise.
"""

from coe_agents.uncertainty.answers import answer_surprisal, leading_cluster, leading_clusters
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, collaborative_entropy, ensemble_mean
from coe_agents.uncertainty.coordination import Coordination, coordinate
from coe_agents.uncertainty.distributions import cluster_distributions
from coe_agents.uncertainty.divergences import (
    hellinger_distance,
    jensen_shannon_divergence,
    kl_divergence,
    total_variation_distance,
    wasserstein_distance,
)
from coe_agents.uncertainty.entropies import entropy, miller_madow_correction, renyi_entropy, semantic_entropy
from coe_agents.uncertainty.forecast import CoEForecast, coe_forecast
from coe_agents.uncertainty.intervals import CoEInterval, coe_interval
from coe_agents.uncertainty.regimes import epistemic_scale, regime

__all__ = [
    "CoEForecast",
    "CoEInterval",
    "CollaborativeEntropy",
    "Coordination",
    "answer_surprisal",
    "cluster_distributions",
    "coe_forecast",
    "coe_interval",
    "collaborative_entropy",
    "coordinate",
    "ensemble_mean",
    "entropy",
    "epistemic_scale",
    "hellinger_distance",
    "jensen_shannon_divergence",
    "kl_divergence",
    "leading_cluster",
    "leading_clusters",
    "miller_madow_correction",
    "regime",
    "renyi_entropy",
    "semantic_entropy",
    "total_variation_distance",
    "wasserstein_distance",
]
