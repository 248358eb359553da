"""Owns entropies as estimators: CoE and its parts, and those of agents, pool and mean; higher = less sure."""

import numpy as np

from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics, has_identity
from coe_agents.uncertainty import collaborative_entropy


@estimator(
    "Collaborative Entropy and its parts",
    "CoE",
    "Collaborative Entropy: the aleatoric plus the epistemic part, in nats",
)
def coe(statistics: Statistics) -> float:
    """CoE under the Kullback-Leibler divergence (equation 5), in nats; higher = less sure."""
    return float(statistics.split.total)


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
    if has_identity(statistics):
        return statistics.coe_total_variation
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
    return float(statistics.split.aleatoric)


@estimator(
    "Collaborative Entropy and its parts", "Epistemic part of CoE", "how much the agents differ from one another"
)
def epistemic(statistics: Statistics) -> float:
    """U_E, the mean divergence of the agents from their mean (equation 4), in nats; higher = less sure."""
    return float(statistics.split.epistemic)


@estimator(
    "Entropies", "Semantic entropy, mean of agents", "entropy of each agent's meanings; equals the aleatoric part"
)
def semantic_entropy(statistics: Statistics) -> float:
    """Mean over the agents of their semantic entropies, in nats; higher = less sure. It equals `aleatoric`."""
    return float(statistics.split.aleatoric)


@estimator("Entropies", "Semantic entropy, by frequency", "mean of agents, each response counting 1")
def semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1 ("discrete" semantic entropy); higher = less sure."""
    return float(statistics.by_frequency.aleatoric)


@estimator(
    "Entropies", "Semantic entropy, by probability", "mean of agents, responses counting by probability per token"
)
def semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    return None if statistics.by_probability is None else float(statistics.by_probability.aleatoric)


@estimator("Entropies", "Semantic entropy, pooled", "entropy of the meanings of all responses, as if of one agent")
def pooled_semantic_entropy(statistics: Statistics) -> float:
    """Semantic entropy of all responses taken as one model's, in nats; higher = less sure.

    By probability where all agents count so, else by frequency: probabilities and counts of 1 can't be pooled.
    """
    pooled = statistics.pooled_by_probability if all(statistics.counts_by_probability) else None
    return statistics.pooled_by_frequency if pooled is None else pooled


@estimator("Entropies", "Semantic entropy, pooled, by frequency", "pooled, each response counting 1")
def pooled_semantic_entropy_by_frequency(statistics: Statistics) -> float:
    """The same, each response counting 1; higher = less sure."""
    return statistics.pooled_by_frequency


@estimator(
    "Entropies", "Semantic entropy, pooled, by probability", "pooled, responses counting by probability per token"
)
def pooled_semantic_entropy_by_probability(statistics: Statistics) -> float | None:
    """The same by length-normalised probability; higher = less sure. None if a response has none."""
    return statistics.pooled_by_probability


@estimator("Entropies", "Rényi entropy of order 3", "of the group's mean; stresses the leading meanings")
def renyi3(statistics: Statistics) -> float:
    """Renyi entropy of order 3 of the ensemble mean, -log(sum_c p_bar(c)^3) / 2, in nats; higher = less sure.

    With uniform weights CoE under the Kullback-Leibler divergence is the Shannon entropy of the same distribution; the
    higher order looks at the leading clusters and cares less for the tail.
    """
    return statistics.figures["renyi3"]
