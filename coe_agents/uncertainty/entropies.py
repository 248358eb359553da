"""Owns entropies: Shannon's, and of each agent's clusters (equation 2)."""

import numpy as np
import numpy.typing as npt

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

    It is the plug-in estimate: from few responses it is too low on average.

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


def shannon(p: FloatArray) -> FloatArray:
    """H(p) over the last axis of checked rows."""
    from scipy.special import entr  # here, since importing it takes longer than this package

    return np.asarray(entr(p).sum(axis=-1))
