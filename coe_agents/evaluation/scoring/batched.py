"""Owns the scores computed for many questions by one array operation, which takes as long for a single question.

Questions are padded with clusters of probability 0, which change no figure.
"""

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray, join_ties
from coe_agents.uncertainty import kl_divergence
from coe_agents.uncertainty.answers import TIE
from coe_agents.uncertainty.entropies import renyi, shannon

_SUBSET_TOLERANCE = 0.05
"""How much divergence, in nats, one more agent may add to a compatible subset."""
HEAT_TIME = 0.3
"""The diffusion time of Nikitin et al.'s heat kernel."""


def compute_figures(
    distributions: FloatArray, frequencies: FloatArray, support: FloatArray, entropies: FloatArray, sizes: IntArray
) -> dict[str, list[float]]:
    """Returns scores by the name of their estimator, each with a value for every question.

    "degree_matrix" and "kernel_language_entropy" are those of a graph without edges between clusters.

    Args:
        distributions: Shape `(n_questions, n_agents, n_clusters)`.
        frequencies: The same, each response counting 1.
        support: Shape `(n_questions, n_clusters)`: the mean over the agents.
        entropies: Shape `(n_questions, n_agents)`: of `distributions`.
        sizes: Shape `(n_questions, n_clusters)`: the number of responses in each cluster.
    """
    figures = {
        "vote_share": 1.0 - support.max(axis=-1),
        "self_consistency": 1.0 - frequencies.max(axis=-1).mean(axis=-1),
        "disagreement": _disagreement(distributions, support),
        "pooled_disagreement": 1.0 - np.square(support).sum(axis=-1),
        "renyi3": renyi(support, 3.0),
        "degree_matrix": 1.0 - np.square(sizes).sum(axis=-1) / sizes.sum(axis=-1) ** 2,
        "kernel_language_entropy": _kernel_language_entropy(sizes),
        "divergence_subset": _divergence_subset(distributions, support, entropies),
    }
    return {name: values.tolist() for name, values in figures.items()}


def _disagreement(distributions: FloatArray, support: FloatArray) -> FloatArray:
    n_agents = distributions.shape[1]
    if n_agents == 1:
        return np.asarray(1.0 - np.square(support).sum(axis=-1))
    agreement = distributions @ distributions.swapaxes(1, 2)
    between = agreement.sum(axis=(1, 2)) - np.trace(agreement, axis1=1, axis2=2)
    return np.asarray(1.0 - between / (n_agents * (n_agents - 1)))


def _kernel_language_entropy(sizes: IntArray) -> FloatArray:
    """The entropy of the heat kernel of complete graphs, one for each cluster and apart from one another.

    With n nodes such a graph's Laplacian has the eigenvalues 0, once, and n, so its kernel has 1 and exp(-t n), and all
    of its diagonal is (1 + (n - 1) exp(-t n)) / n.
    """
    from scipy.special import entr

    n = np.maximum(sizes, 1)
    heat = np.exp(-HEAT_TIME * n)
    weight = n / (1.0 + (n - 1) * heat) / sizes.sum(axis=-1, keepdims=True)
    parts = entr(weight) + (n - 1) * entr(heat * weight)
    return np.asarray(np.where(sizes > 0, parts, 0.0).sum(axis=-1))


def _divergence_subset(distributions: FloatArray, support: FloatArray, entropies: FloatArray) -> FloatArray:
    order = np.argsort(entropies, axis=-1, kind="stable")
    is_tied = (np.diff(np.take_along_axis(entropies, order, axis=-1), axis=-1) < TIE).any(axis=-1)
    for place in np.flatnonzero(is_tied).tolist():
        order[place] = _surest_first(distributions[place], support[place], entropies[place])
    sorted_entropies = np.take_along_axis(entropies, order, axis=-1)
    rows = np.take_along_axis(distributions, order[:, :, None], axis=1)
    chosen, n_chosen = rows[:, 0].copy(), np.ones(len(rows))
    total, epistemic, own = sorted_entropies[:, 0].copy(), np.zeros(len(rows)), sorted_entropies[:, 0].copy()
    for agent in range(1, rows.shape[1]):
        mixed = shannon((chosen + rows[:, agent]) / (n_chosen + 1.0)[:, None])
        divergence = mixed - (own + sorted_entropies[:, agent]) / (n_chosen + 1.0)
        joins = divergence - epistemic <= _SUBSET_TOLERANCE
        chosen += np.where(joins[:, None], rows[:, agent], 0.0)
        own += np.where(joins, sorted_entropies[:, agent], 0.0)
        n_chosen += joins
        total, epistemic = np.where(joins, mixed, total), np.where(joins, divergence, epistemic)
    return total


def _surest_first(rows: FloatArray, mean: FloatArray, entropies: FloatArray) -> list[int]:
    """Orders the agents of one question where some are equally sure: see `divergence_subset`."""
    sure, near = (join_ties(values).tolist() for values in (entropies, kl_divergence(rows, mean)))
    shares = join_ties(-rows.ravel()).reshape(rows.shape)
    return sorted(range(len(rows)), key=lambda agent: (sure[agent], near[agent], tuple(shares[agent])))
