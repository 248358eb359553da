"""Owns the estimators over the graph of responses, whose edges weigh how much two responses mean the same.

The weight of an edge is the affinity of the two responses' clusters: 1 within a cluster; between clusters 0 or, with
an entailment model, the mean probability that the clusters' first responses entail each other. So m responses need the
pairs of their clusters only, where the papers ask all m (m - 1). All responses of all agents are nodes.
"""

import numpy as np

from coe_agents.evaluation.statistics import Statistics
from coe_agents.evaluation.tallies import FloatArray
from coe_agents.uncertainty import entropy

_HEAT_TIME = 0.3
"""The diffusion time of Nikitin et al.'s heat kernel."""


def degree_matrix(statistics: Statistics) -> float:
    """trace(m I - D) / m^2 with the degrees D (Lin et al., 2024): the mean distance between two responses.

    In [0, 1); higher = less sure.
    """
    return 1.0 - float(_edges(statistics).mean())


def graph_eigenvalues(statistics: Statistics) -> float:
    """EigV, sum_k max(0, 1 - lambda_k) over the eigenvalues of the normalised Laplacian I - D^-1/2 W D^-1/2.

    A smooth count of meanings (Lin et al., 2024): the number of clusters where the graph has no edge between clusters.
    At least 1; higher = less sure.
    """
    edges = _edges(statistics)
    scale = 1.0 / np.sqrt(edges.sum(axis=1))
    return float(np.maximum(np.linalg.eigvalsh(edges * scale[:, None] * scale), 0.0).sum())


def kernel_language_entropy(statistics: Statistics) -> float:
    """Von Neumann entropy, -trace(K log K), of the heat kernel K = exp(-t L) at unit trace (Nikitin et al., 2024).

    L = D - W is the graph's Laplacian and t = 0.3. In [0, log m] nats; higher = less sure.
    """
    edges = _edges(statistics)
    eigenvalues = np.exp(-_HEAT_TIME * np.linalg.eigvalsh(np.diag(edges.sum(axis=1)) - edges))
    return float(entropy(eigenvalues / eigenvalues.sum()))


def _edges(statistics: Statistics) -> FloatArray:
    """Shape `(n_responses, n_responses)`: symmetric, in [0, 1], with a diagonal of 1."""
    return statistics.affinity[np.ix_(statistics.labels, statistics.labels)]
