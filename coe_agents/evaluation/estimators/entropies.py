"""Owns semantic entropy as an estimator: the mean over models and that of the pool; higher = less sure."""

from coe_agents.evaluation.statistics import Statistics


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
