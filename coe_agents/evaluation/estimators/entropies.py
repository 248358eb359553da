"""Owns semantic entropy as an estimator: the mean over models and that of the pool; higher = less sure."""

import numpy as np

from coe_agents.evaluation.statistics import Statistics
from coe_agents.evaluation.tallies import FloatArray
from coe_agents.policy.weighing import log_probabilities
from coe_agents.uncertainty import cluster_distributions, entropy
from coe_agents.uncertainty import semantic_entropy as entropy_of_agents


def semantic_entropy(statistics: Statistics) -> float:
    """Mean over the agents of their semantic entropies, in nats; higher = less sure. It equals `aleatoric`."""
    return _mean(statistics.distributions)


def semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1 ("discrete" semantic entropy); higher = less sure."""
    return _mean(statistics.frequencies)


def semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    return None if statistics.probabilities is None else _mean(statistics.probabilities)


def pooled_semantic_entropy(statistics: Statistics) -> float:
    """Semantic entropy of all responses taken as one model's, in nats; higher = less sure.

    By probability where all agents count so, else by frequency: probabilities and counts of 1 can't be pooled.
    """
    by_probability = all(agent.weighting == "probability" for agent in statistics.measurement.agents.values())
    return _pooled(statistics, statistics.log_probs if by_probability else None)


def pooled_semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1; higher = less sure."""
    return _pooled(statistics, None)


def pooled_semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    if not statistics.all_by_probability:
        return None
    return _pooled(statistics, log_probabilities(statistics.responses, "probability")[0])


def _mean(distributions: FloatArray) -> float:
    return float(np.mean(entropy_of_agents(distributions)))


def _pooled(statistics: Statistics, log_probs: FloatArray | None) -> float:
    one_agent = np.zeros_like(statistics.agents)
    return float(entropy(cluster_distributions(statistics.labels, one_agent, log_probs=log_probs)[0]))
