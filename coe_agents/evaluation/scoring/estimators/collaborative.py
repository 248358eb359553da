"""Owns Collaborative Entropy as an estimator: four divergences, two weightings, two parts; higher = less sure."""

import numpy as np

from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics
from coe_agents.uncertainty import collaborative_entropy


@estimator(
    "Collaborative Entropy and its parts",
    "CoE",
    "Collaborative Entropy: the aleatoric plus the epistemic part, in nats",
)
def coe(statistics: Statistics) -> float:
    """CoE under the Kullback-Leibler divergence (equation 5), in nats; higher = less sure."""
    return statistics.measurement.coe


@estimator("Collaborative Entropy and its parts", "CoE, Jensen-Shannon", "CoE with this divergence between the agents")
def coe_js(statistics: Statistics) -> float:
    """CoE under the Jensen-Shannon divergence; higher = less sure."""
    return statistics.coe_js


@estimator("Collaborative Entropy and its parts", "CoE, Hellinger", "CoE with this distance between the agents")
def coe_hellinger(statistics: Statistics) -> float:
    """CoE under the Hellinger distance; higher = less sure."""
    return statistics.coe_hellinger


@estimator(
    "Collaborative Entropy and its parts",
    "CoE, Wasserstein",
    "CoE with this distance; meanings are 1 apart without an entailment model",
)
def coe_wasserstein(statistics: Statistics) -> float:
    """CoE under the Wasserstein distance; higher = less sure.

    The ground metric is 1 - the clusters' affinity: 0/1, and so total variation, without an entailment model.
    """
    metric = 1.0 - statistics.affinity
    if np.count_nonzero(metric == 1.0) == metric.size - len(metric):
        return statistics.coe_total_variation
    split = collaborative_entropy(statistics.distributions, divergence="wasserstein", ground_metric=metric)
    return float(split.total)


@estimator("Collaborative Entropy and its parts", "CoE, by frequency", "CoE, each response counting 1")
def coe_by_frequency(statistics: Statistics) -> float:
    """CoE with each response counting 1; higher = less sure."""
    return float(statistics.by_frequency.total)


@estimator(
    "Collaborative Entropy and its parts", "CoE, by probability", "CoE, responses counting by probability per token"
)
def coe_by_probability(statistics: Statistics) -> float | None:
    """CoE with responses counting by length-normalised probability; higher = less sure. None if one has none."""
    return None if statistics.by_probability is None else float(statistics.by_probability.total)


@estimator(
    "Collaborative Entropy and its parts",
    "Aleatoric part of CoE",
    "how unsure each agent is by itself; the mean of agents",
)
def aleatoric(statistics: Statistics) -> float:
    """U_A, the mean of the agents' semantic entropies (equation 3), in nats; higher = less sure."""
    return statistics.measurement.aleatoric


@estimator(
    "Collaborative Entropy and its parts", "Epistemic part of CoE", "how much the agents differ from one another"
)
def epistemic(statistics: Statistics) -> float:
    """U_E, the mean divergence of the agents from their mean (equation 4), in nats; higher = less sure."""
    return statistics.measurement.epistemic
