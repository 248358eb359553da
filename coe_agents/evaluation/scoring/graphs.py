"""Owns the scores over the graph of responses, whose edges weigh how much two responses mean the same.

The weight of an edge is the affinity of the two responses' clusters: 1 within a cluster; between clusters 0 or, with
an entailment model, the mean probability that the clusters' most probable responses entail each other. So m responses
need the pairs of their clusters only, where the papers ask all m (m - 1). All responses of all agents are nodes.

Responses of a cluster have equal edges, so no m x m matrix is needed: the eigenvectors are those of a matrix over the
clusters, and the contrasts within a cluster, on which the adjacency is 0 and the Laplacian the cluster's degree. This
is exact.
"""

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.uncertainty import collaborative_entropy
from coe_agents.uncertainty.entropies import shannon

HEAT_TIME = 0.3
"""The diffusion time of Nikitin et al.'s heat kernel."""
_INFORMATIVE = 0.9
"""Lin et al.'s threshold: eigenvectors of the normalised Laplacian with a lower eigenvalue embed the responses."""


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
        "kernel_language_entropy": _kernel_language_entropy(sizes, degrees, adjacency),
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


def _kernel_language_entropy(sizes: IntArray, degrees: FloatArray, adjacency: FloatArray) -> float:
    """Von Neumann entropy, -trace(K log K), of the heat kernel exp(-t L) with a unit diagonal, divided by m.

    K_ij = H_ij / sqrt(H_ii H_jj) / m with H = exp(-t L), the graph's Laplacian L = D - W and t = 0.3 (Nikitin et al.,
    2024, where the entropy is not divided by log m). In [0, log m] nats for m responses.
    """
    eigenvalues, vectors = np.linalg.eigh(np.diag(degrees) - adjacency)
    between = (vectors * np.exp(-HEAT_TIME * eigenvalues)) @ vectors.T
    within = np.exp(-HEAT_TIME * degrees)
    diagonal = (between.diagonal() + (sizes - 1) * within) / sizes  # of H, for each response of a cluster
    scale = np.sqrt(diagonal)
    spectrum = np.concatenate(
        [np.linalg.eigvalsh(between / scale[:, None] / scale), np.repeat(within / diagonal, sizes - 1)]
    )
    # a kernel is positive semi-definite; rounding may put an eigenvalue of 0 below it
    return float(shannon(np.maximum(spectrum, 0.0) / sizes.sum()))
