"""Owns the estimators over the graph of responses, whose edges weigh how much two responses mean the same.

The weight of an edge is the affinity of the two responses' clusters: 1 within a cluster; between clusters 0 or, with
an entailment model, the mean probability that the clusters' most probable responses entail each other. So m responses
need the pairs of their clusters only, where the papers ask all m (m - 1). All responses of all agents are nodes.

Responses of a cluster have equal edges, so no m x m matrix is needed: the eigenvectors are those of a matrix over the
clusters, and the contrasts within a cluster, on which the adjacency is 0 and the Laplacian the cluster's degree. This
is exact.
"""

import math

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.evaluation.scoring.batched import HEAT_TIME
from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics, has_identity
from coe_agents.uncertainty.entropies import shannon

_INFORMATIVE = 0.9
"""Lin et al.'s threshold: eigenvectors of the normalised Laplacian with a lower eigenvalue embed the responses."""


@estimator("Graphs", "Degree matrix", "mean distance between two responses (Lin et al., 2024)")
def degree_matrix(statistics: Statistics) -> float:
    """trace(m I - D) / m^2 with the degrees D (Lin et al., 2024): the mean distance between two responses.

    In [0, 1); higher = less sure.
    """
    if has_identity(statistics):
        return statistics.figures["degree_matrix"]
    sizes, degrees, _ = _quotient(statistics)
    return 1.0 - float(sizes @ degrees) / len(statistics.labels) ** 2


@estimator("Graphs", "Graph eigenvalues", "a smooth count of the meanings (Lin et al., 2024)")
def graph_eigenvalues(statistics: Statistics) -> float:
    """EigV, sum_k max(0, 1 - lambda_k) over the eigenvalues of the normalised Laplacian I - D^-1/2 W D^-1/2.

    A smooth count of meanings (Lin et al., 2024): the number of clusters where the graph has no edge between clusters.
    At least 1; higher = less sure.
    """
    if _lacks_edges(statistics):
        return float(len(statistics.affinity))
    return float(np.maximum(np.linalg.eigvalsh(_normalize(statistics)), 0.0).sum())


@estimator("Graphs", "Eccentricity", "spread of the responses on their graph (Lin et al., 2024)")
def eccentricity(statistics: Statistics) -> float:
    """Ecc, the Frobenius norm of the centred embedding of the m responses (Lin et al., 2024).

    A response's coordinates are its entries in the eigenvectors of I - D^-1/2 W D^-1/2 whose eigenvalues lie below 0.9;
    the mean over the responses is subtracted. In [0, sqrt(n_clusters)); higher = less sure. 0 where all responses are
    in one cluster; sqrt(n_clusters - 1) where the graph has no edge between clusters.
    """
    if _lacks_edges(statistics):
        return math.sqrt(len(statistics.affinity) - 1)
    eigenvalues, vectors = np.linalg.eigh(_normalize(statistics))
    embedding = vectors[:, 1.0 - eigenvalues < _INFORMATIVE]
    sizes = np.bincount(statistics.labels)
    constant = np.sqrt(sizes / sizes.sum())  # the unit vector whose entries are equal over the responses
    return float(np.linalg.norm(embedding - np.outer(constant, constant @ embedding)))


@estimator("Graphs", "Kernel language entropy", "entropy of the graph's heat kernel (Nikitin et al., 2024)")
def kernel_language_entropy(statistics: Statistics) -> float:
    """Von Neumann entropy, -trace(K log K), of the heat kernel exp(-t L) with a unit diagonal, divided by m.

    K_ij = H_ij / sqrt(H_ii H_jj) / m with H = exp(-t L), the graph's Laplacian L = D - W and t = 0.3 (Nikitin et al.,
    2024, where the entropy is not divided by log m). In [0, log m] nats for m responses; higher = less sure.
    """
    if has_identity(statistics):
        return statistics.figures["kernel_language_entropy"]
    sizes, degrees, adjacency = _quotient(statistics)
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


def _lacks_edges(statistics: Statistics) -> bool:
    """Whether no edge connects two clusters, as without an entailment model."""
    return has_identity(statistics) or int(np.count_nonzero(statistics.affinity)) == len(statistics.affinity)


def _normalize(statistics: Statistics) -> FloatArray:
    """Returns D^-1/2 W D^-1/2 over the clusters."""
    _, degrees, adjacency = _quotient(statistics)
    scale = 1.0 / np.sqrt(degrees)
    return np.asarray(adjacency * scale[:, None] * scale)


def _quotient(statistics: Statistics) -> tuple[IntArray, FloatArray, FloatArray]:
    """Returns by cluster the number of responses n, their degree d, and the adjacency sqrt(n_i) a_ij sqrt(n_j)."""
    sizes = np.bincount(statistics.labels)
    root = np.sqrt(sizes)
    return sizes, statistics.affinity @ sizes, root[:, None] * statistics.affinity * root
