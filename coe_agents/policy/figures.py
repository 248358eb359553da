"""Owns the scores that are arrays: of many questions by one operation."""

import numpy as np

from coe_agents.uncertainty import collaborative_entropy, entropy
from coe_agents.uncertainty._checks import FloatArray


def compute_figures(
    distributions: FloatArray,
    *,
    pooled: FloatArray,
    support: FloatArray,
    frequencies: FloatArray,
    weights: FloatArray | None = None,
) -> dict[str, list[float]]:
    """Returns scores by name, each with a value for every question; higher = less sure.

    Questions are padded with clusters of probability 0, which change no figure. Clusters are 1 apart.

    Args:
        distributions: Shape `(n_questions, n_agents, n_clusters)`.
        pooled: Shape `(n_questions, n_clusters)`: the distribution of all responses as one agent's.
        support: Shape `(n_questions, n_clusters)`: the mean of the distributions over the agents.
        frequencies: As `distributions`, each response counting 1.
        weights: Of the agents, by which `support` was taken, for the parts of CoE; None: equal.
    """
    split = collaborative_entropy(distributions, weights=weights)
    figures = {
        # U_A + U_E (equation 5), U_A (equation 3) and U_E (equation 4), in nats
        "coe": split.total,
        "coe_js": collaborative_entropy(distributions, weights=weights, divergence="js").total,
        "coe_hellinger": collaborative_entropy(
            distributions, weights=weights, divergence="hellinger"
        ).total,
        "coe_wasserstein": collaborative_entropy(
            distributions, weights=weights, divergence="wasserstein"
        ).total,
        "aleatoric": split.aleatoric,
        "epistemic": split.epistemic,
        # the mean over the agents of their semantic entropies, in nats
        "semantic_entropy": split.aleatoric,
        # all responses taken as one model's, in nats
        "pooled_semantic_entropy": entropy(pooled),
        **support_figures(support),
        # 1 - the mean over agents of the share of their own most frequent cluster (Wang et al., 2023), in [0, 1)
        "self_consistency": 1.0 - frequencies.max(axis=-1).mean(axis=-1),
        "disagreement": _disagreement(distributions, support),
    }
    return {name: np.asarray(values).tolist() for name, values in figures.items()}


def support_figures(support: FloatArray) -> dict[str, FloatArray]:
    """Returns the scores that need the ensemble mean alone, shape `(..., n_clusters)`, each of shape `(...)`."""
    return {
        # 1 - the leading cluster's share of the ensemble mean, in [0, 1)
        "vote_share": np.asarray(1.0 - support.max(axis=-1)),
        # the probability that two responses drawn from the ensemble mean differ
        "pooled_disagreement": np.asarray(1.0 - np.square(support).sum(axis=-1)),
    }


def _disagreement(distributions: FloatArray, support: FloatArray) -> FloatArray:
    """The probability that a response of one agent and one of another differ in meaning.

    1 - the mean over pairs i != j of sum_c p_i(c) p_j(c); pooled where only one agent responded.
    """
    n_agents = distributions.shape[1]
    if n_agents == 1:
        return np.asarray(1.0 - np.square(support).sum(axis=-1))
    agreement = distributions @ distributions.swapaxes(1, 2)
    between = agreement.sum(axis=(1, 2)) - np.trace(agreement, axis1=1, axis2=2)
    return np.asarray(1.0 - between / (n_agents * (n_agents - 1)))
