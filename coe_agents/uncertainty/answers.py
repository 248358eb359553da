"""Owns the choice of the group's answer cluster and how surprising that choice is to the group."""

import numpy as np
import numpy.typing as npt

from coe_agents.checks import require
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import BoolArray, FloatArray, FloatOrArray, IntArray
from coe_agents.uncertainty.collaborative import ensemble_mean

TIE = 1e-9
"""Ensemble means closer than this tie, so that rounding chooses no answer."""


def leading_cluster(distributions: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> int | IntArray:
    """The cluster of the highest ensemble mean, argmax_c p_bar(c); the first one on ties.

    "The cluster with the lowest associated CoE" (system overview) is read as the cluster of least surprisal
    -log p_bar(c): under the Kullback-Leibler divergence and uniform weights CoE is the mean of these surprisals. That
    is an interpretation; elsewhere the paper says that CoE is not an output selector.

    Args:
        distributions: Shape `(..., n_agents, n_clusters)`; rows sum to 1.
        weights: Shape `(n_agents,)` or `(..., n_agents)`, summing to 1; None: 1 / n_agents each.

    Returns:
        An int for one question, integers of shape `(...)` for many. Means closer than 1e-9 tie: `leading_clusters`
        returns all that share the lead.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: As `ensemble_mean`.

    >>> leading_cluster([[0.25, 0.75], [0.75, 0.25]])
    0
    """
    leaders = first_highest(ensemble_mean(distributions, weights=weights))
    return int(leaders) if leaders.ndim == 0 else leaders


def leading_clusters(distributions: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> BoolArray:
    """Whether each cluster shares the lead: its ensemble mean lies less than 1e-9 below the highest.

    Args:
        distributions: Shape `(..., n_agents, n_clusters)`; rows sum to 1.
        weights: Shape `(n_agents,)` or `(..., n_agents)`, summing to 1; None: 1 / n_agents each.

    Returns:
        Shape `(..., n_clusters)`; more than one True is a tie, which nothing but trust (unequal weights) may break.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: As `ensemble_mean`.

    >>> leading_clusters([[0.25, 0.75], [0.75, 0.25]])
    array([ True,  True])
    >>> leading_clusters([[0.25, 0.75], [0.75, 0.25]], weights=[0.6, 0.4])
    array([False,  True])
    """
    return shares_lead(ensemble_mean(distributions, weights=weights))


def answer_surprisal(
    distributions: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    cluster: npt.ArrayLike | None = None,
) -> FloatOrArray:
    """Surprisal of the chosen cluster under the ensemble mean, -log p_bar(c).

    Args:
        distributions: Shape `(..., n_agents, n_clusters)`; rows sum to 1.
        weights: Shape `(n_agents,)` or `(..., n_agents)`, summing to 1; None: 1 / n_agents each.
        cluster: The chosen cluster: an integer, or integers of shape `(...)`; None: `leading_cluster`.

    Returns:
        Nats, in [0, inf], for the leading cluster at most log(n_clusters); a float for one question, an array of shape
        `(...)` for many; higher = less sure. 0.0 for a cluster that holds everything, inf for one that holds nothing.

    Raises:
        TypeError: An argument does not hold numbers of the right kind.
        ValueError: As `ensemble_mean`, or a cluster is out of range or does not fit the leading dimensions.

    >>> round(answer_surprisal([[1.0, 0.0], [0.5, 0.5]]), 4)
    0.2877
    >>> answer_surprisal([[1.0, 0.0], [1.0, 0.0]], cluster=1)
    inf
    """
    mean = ensemble_mean(distributions, weights=weights)
    if cluster is None:
        chosen = first_highest(mean)
    else:
        chosen = _checks.integers(cluster, "cluster", upper=mean.shape[-1], upper_name="n_clusters")
        fits = _checks.common_shape(chosen.shape, mean.shape[:-1]) == mean.shape[:-1]
        must = f'"cluster" must hold one cluster for each question, shape {mean.shape[:-1]}'
        require(fits, must, chosen.shape, "Omit it for the leading cluster")
        chosen = np.broadcast_to(chosen, mean.shape[:-1])
    support = np.take_along_axis(mean, chosen[..., None], axis=-1)[..., 0]
    with np.errstate(divide="ignore"):
        return _checks.plain(np.asarray(0.0 - np.log(support)))


def shares_lead(p: FloatArray) -> BoolArray:
    """Whether each value is the highest of the last axis, up to rounding errors."""
    return np.asarray(p > p.max(axis=-1, keepdims=True) - TIE)


def first_highest(p: FloatArray) -> IntArray:
    """The first index over the last axis whose value is the highest, up to rounding errors."""
    return np.asarray(np.argmax(shares_lead(p), axis=-1))
