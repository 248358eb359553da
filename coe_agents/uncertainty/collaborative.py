"""Owns Collaborative Entropy (equations 3 to 5): how unsure a group of agents is, split into its two sources."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray, FloatOrArray
from coe_agents.uncertainty.divergences import Kernel, kernel
from coe_agents.uncertainty.entropies import shannon


class CollaborativeEntropy(NamedTuple):
    """Collaborative Entropy and its two parts; higher = less sure.

    Attributes:
        total: CoE = aleatoric + epistemic (equation 5).
        aleatoric: U_A, the mean of the agents' semantic entropies (equation 3): doubt within agents.
        epistemic: U_E, the weighted divergence of the agents from their mean (equation 4): disagreement between them.
    """

    total: FloatOrArray
    aleatoric: FloatOrArray
    epistemic: FloatOrArray


def collaborative_entropy(
    distributions: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    divergence: str = "kl",
    ground_metric: npt.ArrayLike | None = None,
) -> CollaborativeEntropy:
    """Collaborative Entropy, CoE = (1/K) sum_i SE_i + sum_i w_i D(p_i || p_bar), p_bar = sum_i w_i p_i (equation 5).

    The first term is the *uniform* mean over the agents (equation 3) whatever the weights, the second is weighted
    (equation 4). So under "kl" CoE = H(p_bar) + sum_i (1/K - w_i) H(p_i): with uniform weights it is exactly the
    entropy of the mixture, and where all agents give equally many responses, counted by frequency, the semantic
    entropy of the pooled responses. What CoE adds there is the split.

    Args:
        distributions: Shape `(n_agents, n_clusters)` or `(..., n_agents, n_clusters)`; rows sum to 1 within 1e-6.
        weights: Shape `(n_agents,)` or `(..., n_agents)`: at least 0, summing to 1; None: 1 / n_agents each. An agent
            of weight 0 adds nothing to U_E but still counts in U_A.
        divergence: "kl" (the paper's), "js", "hellinger", "total_variation" or "wasserstein".
        ground_metric: Distances between clusters, for "wasserstein" (`wasserstein_distance`); None: 1 between any two,
            which makes it "total_variation".

    Returns:
        Floats for one question, arrays of shape `(...)` for many. U_A is in [0, log(n_clusters)] nats. Under "kl" U_E
        is the generalised Jensen-Shannon divergence, in nats, with U_E <= H(w) <= log(n_agents), and with uniform
        weights CoE <= log(n_clusters). Under "js" U_E is in nats, at most log 2. Hellinger's has no unit and is at most
        1, Wasserstein's has the ground metric's and is at most its largest distance; both may exceed H(w). CoE is never
        negative, and 0.0 if all agents put everything on one cluster; for weights above 0 only then: with weights
        (1, 0) and opposite certain agents it is 0 as well. With one agent CoE is its semantic entropy and U_E is 0.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: `distributions` is empty or has fewer than two dimensions, a row is not a distribution, the weights
            do not fit, or the divergence is not known.
        CoEError: A linear program of "wasserstein" with a ground metric could not be solved.

    Doubt within the agents and disagreement between them can give the same CoE:

        >>> split = collaborative_entropy([[1.0, 0.0], [0.0, 1.0]])
        >>> round(split.total, 4), round(split.aleatoric, 4), round(split.epistemic, 4)
        (0.6931, 0.0, 0.6931)
        >>> split = collaborative_entropy([[0.5, 0.5], [0.5, 0.5]])
        >>> round(split.total, 4), round(split.aleatoric, 4), round(split.epistemic, 4)
        (0.6931, 0.6931, 0.0)
    """
    array = _checks.rows(distributions, "distributions", min_ndim=2)
    agent_weights = _checks.weights(weights, array.shape)
    return decompose(array, agent_weights, kernel(divergence, ground_metric, array.shape[-1]))


def ensemble_mean(
    distributions: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> FloatArray:
    """The agents' weighted mean distribution, p_bar(c) = sum_i w_i p_i(c) (before equation 3).

    Args:
        distributions: Shape `(..., n_agents, n_clusters)`; rows sum to 1.
        weights: Shape `(n_agents,)` or `(..., n_agents)`, summing to 1; None: 1 / n_agents each.

    Returns:
        Shape `(..., n_clusters)`, in [0, 1], summing to 1 over the clusters.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: `distributions` is empty or has fewer than two dimensions, a row is not a distribution, or the
            weights do not fit.

    >>> ensemble_mean([[1.0, 0.0], [0.0, 1.0]], weights=[0.75, 0.25])
    array([0.75, 0.25])
    """
    array = _checks.rows(distributions, "distributions", min_ndim=2)
    return mean_of(array, _checks.weights(weights, array.shape))


def mean_of(distributions: FloatArray, weights: FloatArray) -> FloatArray:
    """p_bar of checked rows and weights; where all agents agree it is exactly theirs, so that they diverge by 0."""
    mean = np.einsum("...k,...kc->...c", weights, distributions)
    mean /= mean.sum(axis=-1, keepdims=True)
    unanimous = (distributions == distributions[..., :1, :]).all(axis=-2)
    return np.where(unanimous, distributions[..., 0, :], mean)


class Parts(NamedTuple):
    """What CoE is composed of: the agents' entropies (equation 2), their mean p_bar, and the weighted divergence."""

    entropies: FloatArray
    mean: FloatArray
    epistemic: FloatArray

    def compose(self) -> CollaborativeEntropy:
        aleatoric = np.asarray(self.entropies.mean(axis=-1))
        return CollaborativeEntropy(
            _checks.plain(aleatoric + self.epistemic),
            _checks.plain(aleatoric),
            _checks.plain(self.epistemic),
        )


def parts_of(distributions: FloatArray, weights: FloatArray, divergence: Kernel) -> Parts:
    """The parts of CoE of checked rows and weights."""
    mean = mean_of(distributions, weights)
    center = mean[..., None, :]
    # A cluster that the mean misses carries no weight (each w_i p_i there is 0, or so small that it underflows):
    # left out, an agent of weight 0 adds 0 times a finite number, never 0 times inf.
    supported = np.where(center > 0.0, distributions, 0.0)
    epistemic = np.asarray((weights * divergence(supported, center)).sum(axis=-1))
    return Parts(shannon(distributions), mean, epistemic)


def decompose(
    distributions: FloatArray, weights: FloatArray, divergence: Kernel
) -> CollaborativeEntropy:
    """CoE of checked rows and weights."""
    return parts_of(distributions, weights, divergence).compose()
