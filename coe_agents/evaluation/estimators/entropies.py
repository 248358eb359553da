"""Owns entropies as estimators: of the agents, of the pool and of the ensemble mean; higher = less sure."""

import numpy as np

from coe_agents.evaluation.statistics import Statistics
from coe_agents.uncertainty import renyi_entropy


def semantic_entropy(statistics: Statistics) -> float:
    """Mean over the agents of their semantic entropies, in nats; higher = less sure. It equals `aleatoric`."""
    return statistics.measurement.aleatoric


def semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1 ("discrete" semantic entropy); higher = less sure."""
    return float(statistics.by_frequency.aleatoric)


def semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    return None if statistics.by_probability is None else float(statistics.by_probability.aleatoric)


def pooled_semantic_entropy(statistics: Statistics) -> float:
    """Semantic entropy of all responses taken as one model's, in nats; higher = less sure.

    By probability where all agents count so, else by frequency: probabilities and counts of 1 can't be pooled.
    """
    by_probability = all(agent.weighting == "probability" for agent in statistics.measurement.agents.values())
    pooled = statistics.pooled_by_probability if by_probability else None
    return statistics.pooled_by_frequency if pooled is None else pooled


def pooled_semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1; higher = less sure."""
    return statistics.pooled_by_frequency


def pooled_semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    return statistics.pooled_by_probability


def renyi3(statistics: Statistics) -> float:
    """Renyi entropy of order 3 of the ensemble mean, -log(sum_c p_bar(c)^3) / 2, in nats; higher = less sure.

    With uniform weights CoE under the Kullback-Leibler divergence is the Shannon entropy of the same distribution; the
    higher order looks at the leading clusters and cares less for the tail.
    """
    return float(renyi_entropy(np.array(statistics.measurement.support), order=3.0))
