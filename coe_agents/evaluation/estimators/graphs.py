"""Owns the estimators over the graph of responses, whose edges weigh how much two responses mean the same.

The weight of an edge is the affinity of the two responses' clusters: 1 within a cluster; between clusters 0 or, with
an entailment model, the mean probability that the clusters' first responses entail each other. So m responses need the
pairs of their clusters only, where the papers ask all m (m - 1). All responses of all agents are nodes.

Responses of a cluster have equal edges, so no m x m matrix is needed: the eigenvectors are those of a matrix over the
clusters, and the contrasts within a cluster, on which the adjacency is 0 and the Laplacian the cluster's degree.
"""

import numpy as np

from coe_agents.evaluation.statistics import Statistics
from coe_agents.evaluation.tallies import FloatArray, IntArray
from coe_agents.uncertainty.entropies import shannon

_HEAT_TIME = 0.3
"""The diffusion time of Nikitin et al.'s heat kernel."""


def degree_matrix(statistics: Statistics) -> float:
    """trace(m I - D) / m^2 with the degrees D (Lin et al., 2024): the mean distance between two responses.

    In [0, 1); higher = less sure.
    """
    sizes, degrees, _ = _quotient(statistics)
    return 1.0 - float(sizes @ degrees) / len(statistics.labels) ** 2


def graph_eigenvalues(statistics: Statistics) -> float:
    """EigV, sum_k max(0, 1 - lambda_k) over the eigenvalues of the normalised Laplacian I - D^-1/2 W D^-1/2.

    A smooth count of meanings (Lin et al., 2024): the number of clusters where the graph has no edge between clusters.
    At least 1; higher = less sure.
    """
    _, degrees, adjacency = _quotient(statistics)
    scale = 1.0 / np.sqrt(degrees)
    return float(np.maximum(np.linalg.eigvalsh(adjacency * scale[:, None] * scale), 0.0).sum())


def kernel_language_entropy(statistics: Statistics) -> float:
    """Von Neumann entropy, -trace(K log K), of the heat kernel K = exp(-t L) at unit trace (Nikitin et al., 2024).

    L = D - W is the graph's Laplacian and t = 0.3. In [0, log m] nats; higher = less sure.
    """
    sizes, degrees, adjacency = _quotient(statistics)
    between = np.linalg.eigvalsh(np.diag(degrees) - adjacency)
    heat = np.exp(-_HEAT_TIME * np.concatenate([between, np.repeat(degrees, sizes - 1)]))
    return float(shannon(heat / heat.sum()))


def _quotient(statistics: Statistics) -> tuple[IntArray, FloatArray, FloatArray]:
    """Returns by cluster the number of responses n, their degree d, and the adjacency sqrt(n_i) a_ij sqrt(n_j)."""
    sizes = np.bincount(statistics.labels)
    root = np.sqrt(sizes)
    return sizes, statistics.affinity @ sizes, root[:, None] * statistics.affinity * root
