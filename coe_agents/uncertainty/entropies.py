"""Owns entropies: Shannon's, Renyi's, of each agent's clusters (equation 2), and the bias of a small sample."""

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number, require
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray, FloatOrArray


def entropy(p: npt.ArrayLike) -> FloatOrArray:
    """Shannon entropy, H(p) = - sum_j p_j log p_j, with 0 log 0 = 0.

    Args:
        p: Shape `(..., n_outcomes)`; probabilities, summing to 1 over the last axis within 1e-6.

    Returns:
        A float for one distribution, an array of shape `(...)` otherwise; in nats, in [0, log(n_outcomes)]; higher =
        less sure. A certain outcome gives exactly 0.0.

    Raises:
        TypeError: `p` does not hold real numbers.
        ValueError: `p` is empty, or a row is negative, not finite, or does not sum to 1.

    Outcomes of probability 0 change nothing, so rows of different lengths may be padded with zeros:

        >>> round(entropy([0.5, 0.5]), 4) == round(entropy([0.5, 0.5, 0.0]), 4) == 0.6931
        True
        >>> entropy([0.0, 1.0])
        0.0
    """
    return _checks.plain(shannon(_checks.rows(p, "p", min_ndim=1)))


def semantic_entropy(distributions: npt.ArrayLike) -> FloatOrArray:
    """Semantic entropy of every agent (equation 2), SE_i = - sum_j p_i(c_j) log p_i(c_j).

    It is the plug-in estimate: from few responses it is too low on average (`miller_madow_correction`).

    Args:
        distributions: Shape `(..., n_agents, n_clusters)`; rows sum to 1.

    Returns:
        Shape `(..., n_agents)`, or a float for the one row of one agent; in nats, in [0, log(n_clusters)]; higher =
        less sure. 0.0 for an agent whose responses all mean the same.

    Raises:
        TypeError: `distributions` does not hold real numbers.
        ValueError: `distributions` is empty, or a row is not a distribution.

    It sees one agent at a time; two agents sure of different answers are both certain:

        >>> semantic_entropy([[1.0, 0.0], [0.0, 1.0]])
        array([0., 0.])
    """
    return _checks.plain(shannon(_checks.rows(distributions, "distributions", min_ndim=1)))


def renyi_entropy(p: npt.ArrayLike, *, order: float = 3.0) -> FloatOrArray:
    """Renyi entropy, H_a(p) = log(sum_j p_j^a) / (1 - a) for order a (Renyi, 1961).

    The higher the order, the more the likeliest outcomes decide. The limits are taken: order 1 is Shannon's `entropy`,
    infinity the min-entropy -log max_j p_j, and 0 the log of the number of outcomes with a probability above 0. Order 2
    is the collision entropy, -log of the probability that two draws are equal.

    Args:
        p: Shape `(..., n_outcomes)`; probabilities, summing to 1 over the last axis within 1e-6.
        order: At least 0; `math.inf` is allowed.

    Returns:
        A float for one distribution, an array of shape `(...)` otherwise; in nats, in [0, log(n_outcomes)]; higher =
        less sure. It never rises with the order. A certain outcome gives exactly 0.0, a uniform distribution
        log(n_outcomes), at any order.

    Raises:
        TypeError: An argument does not hold real numbers.
        ValueError: `p` is empty, or a row is negative, not finite, or does not sum to 1; or `order` is below 0 or NaN.

    A long tail of improbable outcomes counts for less than in Shannon's entropy:

        >>> tail = [0.8] + [0.01] * 20
        >>> round(entropy(tail), 4), round(renyi_entropy(tail), 4)
        (1.0995, 0.3347)
        >>> renyi_entropy(tail, order=1.0) == entropy(tail)
        True
    """
    exponent = number(
        order, '"order"', least=0, may_be_infinite=True, advice="1.0 is Shannon's entropy, math.inf the min-entropy"
    )
    return _checks.plain(renyi(_checks.rows(p, "p", min_ndim=1), exponent))


def miller_madow_correction(n_observed_clusters: npt.ArrayLike, n_responses: npt.ArrayLike) -> FloatOrArray:
    """The first-order bias of a plug-in entropy, (m - 1) / (2 n), to be added to it (Miller, 1955).

    An entropy computed from n responses in m observed clusters is too low on average: E[SE] is about
    SE - (l - 1) / (2 n), where l >= m is the number of clusters that the agent could give. With m in place of l
    the correction is itself a little low, and it is 0 when all responses agree, however few they are.

    Args:
        n_observed_clusters: m, the number of clusters with at least one response; any shape.
        n_responses: n, the number of responses; broadcast against `n_observed_clusters`.

    Returns:
        Nats, at least 0; a float for two numbers, an array otherwise. A corrected entropy may exceed log(m).

    Raises:
        TypeError: A count is not an integer.
        ValueError: A count is below 1, or there are more clusters than responses.

    >>> miller_madow_correction(3, 5)
    0.2
    >>> miller_madow_correction(1, 5)
    0.0
    """
    observed = _checks.integers(n_observed_clusters, "n_observed_clusters")
    responses = _checks.integers(n_responses, "n_responses")
    fits = bool((observed >= 1).all() and (observed <= responses).all())
    must = '"n_observed_clusters" must be at least 1 and at most "n_responses"'
    require(fits, must, observed.tolist(), "Count the clusters that have a response")
    return _checks.plain(np.asarray((observed - 1) / (2.0 * responses)))


def shannon(p: FloatArray) -> FloatArray:
    """H(p) over the last axis of checked rows."""
    from scipy.special import entr  # here, since importing it takes longer than this package

    return np.asarray(entr(p).sum(axis=-1))


def renyi(p: FloatArray, order: float) -> FloatArray:
    """H_order(p) over the last axis of checked rows."""
    if order == 1.0:
        return shannon(p)
    highest = p.max(axis=-1)
    least = 0.0 - np.log(highest)
    if order == np.inf:
        return np.asarray(least)
    masses = np.where(p > 0.0, (p / highest[..., None]) ** order, 0.0)  # relative, so that no order makes all underflow
    values = np.log(masses.sum(axis=-1)) / (1.0 - order) + least * (order / (order - 1.0))
    return np.asarray(np.clip(values, least, np.log(p.shape[-1])))  # only rounding leaves the bounds
