"""Owns the scores that are arrays: of many questions by one operation, and of the graph of one question's responses.

An edge of that graph weighs how much two responses mean the same: the affinity of their clusters, which is 1 within a
cluster; between clusters 0 or, with an entailment model, the mean probability that the clusters' most probable
responses entail each other. So m responses need the pairs of their clusters only, where the papers ask all m (m - 1).
All responses of all agents are nodes. Those of a cluster have equal edges, so no m x m matrix is needed: the
eigenvectors are those of a matrix over the clusters, and the contrasts within a cluster, on which the adjacency is 0
and the Laplacian the cluster's degree. This is exact.
"""

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray, join_ties
from coe_agents.uncertainty import collaborative_entropy, entropy, kl_divergence
from coe_agents.uncertainty.entropies import renyi, shannon
from coe_agents.uncertainty.ties import TIE

_SUBSET_TOLERANCE = 0.05
"""How much divergence, in nats, one more agent may add to a compatible subset."""
_HEAT_TIME = 0.3
"""The diffusion time of Nikitin et al.'s heat kernel."""
_INFORMATIVE = 0.9
"""Lin et al.'s threshold: eigenvectors of the normalised Laplacian with a lower eigenvalue embed the responses."""


def compute_figures(
    distributions: FloatArray,
    *,
    pooled: FloatArray,
    support: FloatArray,
    entropies: FloatArray,
    sizes: IntArray,
    frequencies: FloatArray,
) -> dict[str, list[float]]:
    """Returns scores by name, each with a value for every question; higher = less sure.

    Questions are padded with clusters of probability 0, which change no figure. Scores that read how near clusters are
    take them to be 1 apart; with an entailment model, `graph_figures` replaces these.

    Args:
        distributions: Shape `(n_questions, n_agents, n_clusters)`.
        pooled: Shape `(n_questions, n_clusters)`: the distribution of all responses as one agent's.
        support: Shape `(n_questions, n_clusters)`: the mean of the distributions over the agents.
        entropies: Shape `(n_questions, n_agents)`: of the distributions.
        sizes: Shape `(n_questions, n_clusters)`: the number of responses in each cluster.
        frequencies: As `distributions`, each response counting 1.
    """
    split = collaborative_entropy(distributions)
    n_clusters = (sizes > 0).sum(axis=-1).astype(np.float64)
    figures = {
        # U_A + U_E (equation 5), U_A (equation 3) and U_E (equation 4), in nats
        "coe": split.total,
        "coe_js": collaborative_entropy(distributions, divergence="js").total,
        "coe_hellinger": collaborative_entropy(distributions, divergence="hellinger").total,
        "coe_wasserstein": collaborative_entropy(distributions, divergence="wasserstein").total,
        "aleatoric": split.aleatoric,
        "epistemic": split.epistemic,
        # the mean over the agents of their semantic entropies, in nats
        "semantic_entropy": split.aleatoric,
        # all responses taken as one model's, in nats
        "pooled_semantic_entropy": entropy(pooled),
        # -log(sum_c p_bar(c)^3) / 2, in nats. With uniform weights CoE is the Shannon entropy of the same distribution;
        # the higher order looks at the leading clusters and cares less for the tail
        "renyi3": renyi(support, 3.0),
        "divergence_subset": _divergence_subset(distributions, support, entropies),
        # 1 - the leading cluster's share of the ensemble mean, in [0, 1)
        "vote_share": 1.0 - support.max(axis=-1),
        # 1 - the mean over agents of the share of their own most frequent cluster (Wang et al., 2023), in [0, 1)
        "self_consistency": 1.0 - frequencies.max(axis=-1).mean(axis=-1),
        "disagreement": _disagreement(distributions, support),
        # the probability that two responses drawn from the ensemble mean differ
        "pooled_disagreement": 1.0 - np.square(support).sum(axis=-1),
        "degree_matrix": 1.0 - np.square(sizes).sum(axis=-1) / sizes.sum(axis=-1) ** 2,
        "graph_eigenvalues": n_clusters,
        "eccentricity": np.sqrt(n_clusters - 1.0),
        "kernel_language_entropy": _kernel_language_entropy(sizes),
    }
    return {name: np.asarray(values).tolist() for name, values in figures.items()}


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


def _kernel_language_entropy(sizes: IntArray) -> FloatArray:
    """The entropy of the heat kernel of complete graphs, one for each cluster and apart from one another.

    With n nodes such a graph's Laplacian has the eigenvalues 0, once, and n, so its kernel has 1 and exp(-t n), and all
    of its diagonal is (1 + (n - 1) exp(-t n)) / n.
    """
    from scipy.special import entr

    n = np.maximum(sizes, 1)
    heat = np.exp(-_HEAT_TIME * n)
    weight = n / (1.0 + (n - 1) * heat) / sizes.sum(axis=-1, keepdims=True)
    parts = entr(weight) + (n - 1) * entr(heat * weight)
    return np.asarray(np.where(sizes > 0, parts, 0.0).sum(axis=-1))


def _divergence_subset(distributions: FloatArray, support: FloatArray, entropies: FloatArray) -> FloatArray:
    """Entropy of the mean distribution of a compatible subset of the agents, in nats.

    After Kruse et al. (2025, "MUSE"), who choose a subset of the models by Jensen-Shannon divergence and aggregate it.
    Their tasks are binary; what is computed here is: order the agents by their semantic entropy, the surest first;
    start with the first; add each next one if the generalised Jensen-Shannon divergence of the subset, U_E with equal
    weights, grows by at most 0.05 nats; the score is the entropy of the subset's mean distribution, U_A + U_E of the
    subset. Of equally sure agents the one nearest to the ensemble mean comes first, by its divergence KL(p_i || p_bar);
    of equally near ones the one whose answers come first as texts, so that no name decides. It is the spirit of the
    method, not a reproduction of its figures.
    """
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
    """Orders the agents of one question where some are equally sure: see `_divergence_subset`."""
    sure, near = (join_ties(values).tolist() for values in (entropies, kl_divergence(rows, mean)))
    shares = join_ties(-rows.ravel()).reshape(rows.shape)
    return sorted(range(len(rows)), key=lambda agent: (sure[agent], near[agent], tuple(shares[agent])))


def graph_figures(distributions: FloatArray, labels: IntArray, affinity: FloatArray) -> dict[str, float]:
    """Returns the scores of one question that the affinities change, by name; higher = less sure.

    Args:
        distributions: Shape `(n_agents, n_clusters)`.
        labels: Shape `(n_responses,)`: the cluster of each response.
        affinity: Shape `(n_clusters, n_clusters)`, in [0, 1], with a diagonal of 1.
    """
    if np.count_nonzero(affinity) == len(affinity):
        return {}  # no edge connects two clusters, as without an entailment model
    sizes = np.bincount(labels)
    degrees = affinity @ sizes
    root = np.sqrt(sizes)
    adjacency = root[:, None] * affinity * root
    scale = 1.0 / np.sqrt(degrees)
    normalised = adjacency * scale[:, None] * scale  # D^-1/2 W D^-1/2
    return {
        # the ground metric is 1 - the clusters' affinity
        "coe_wasserstein": float(
            collaborative_entropy(distributions, divergence="wasserstein", ground_metric=1.0 - affinity).total
        ),
        # trace(m I - D) / m^2 with the degrees D (Lin et al., 2024): the mean distance between two responses, in [0, 1)
        "degree_matrix": 1.0 - float(sizes @ degrees) / len(labels) ** 2,
        # EigV, sum_k max(0, 1 - lambda_k) over the eigenvalues of the normalised Laplacian I - D^-1/2 W D^-1/2: a
        # smooth count of meanings (Lin et al., 2024), the number of clusters where no edge connects two; at least 1
        "graph_eigenvalues": float(np.maximum(np.linalg.eigvalsh(normalised), 0.0).sum()),
        "eccentricity": _eccentricity(normalised, sizes),
        "kernel_language_entropy": _heat_kernel_entropy(sizes, degrees, adjacency),
    }


def _eccentricity(normalised: FloatArray, sizes: IntArray) -> float:
    """Ecc, the Frobenius norm of the centred embedding of the m responses (Lin et al., 2024).

    A response's coordinates are its entries in the eigenvectors of I - D^-1/2 W D^-1/2 whose eigenvalues lie below 0.9;
    the mean over the responses is subtracted. In [0, sqrt(n_clusters)): 0 where all responses are in one cluster;
    sqrt(n_clusters - 1) where the graph has no edge between clusters.
    """
    eigenvalues, vectors = np.linalg.eigh(normalised)
    embedding = vectors[:, 1.0 - eigenvalues < _INFORMATIVE]
    constant = np.sqrt(sizes / sizes.sum())  # the unit vector whose entries are equal over the responses
    return float(np.linalg.norm(embedding - np.outer(constant, constant @ embedding)))


def _heat_kernel_entropy(sizes: IntArray, degrees: FloatArray, adjacency: FloatArray) -> float:
    """Von Neumann entropy, -trace(K log K), of the heat kernel exp(-t L) with a unit diagonal, divided by m.

    K_ij = H_ij / sqrt(H_ii H_jj) / m with H = exp(-t L), the graph's Laplacian L = D - W and t = 0.3 (Nikitin et al.,
    2024, where the entropy is not divided by log m). In [0, log m] nats for m responses.
    """
    eigenvalues, vectors = np.linalg.eigh(np.diag(degrees) - adjacency)
    between = (vectors * np.exp(-_HEAT_TIME * eigenvalues)) @ vectors.T
    within = np.exp(-_HEAT_TIME * degrees)
    diagonal = (between.diagonal() + (sizes - 1) * within) / sizes  # of H, for each response of a cluster
    scale = np.sqrt(diagonal)
    spectrum = np.concatenate(
        [np.linalg.eigvalsh(between / scale[:, None] / scale), np.repeat(within / diagonal, sizes - 1)]
    )
    # a kernel is positive semi-definite; rounding may put an eigenvalue of 0 below it
    return float(shannon(np.maximum(spectrum, 0.0) / sizes.sum()))
