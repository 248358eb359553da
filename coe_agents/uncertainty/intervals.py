"""Owns the interval of Collaborative Entropy: the range of the agents' true value, given few responses."""

from __future__ import annotations  # annotations would import `numpy.random` at every start

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coe_agents._removed import refuses_removed
from coe_agents.checks import integer, number, require
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, collaborative_entropy
from coe_agents.uncertainty.distributions import cluster_distributions

Interval = tuple[float, float]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class CoEInterval:
    """Intervals of CoE and its parts, each `(low, high)`, and the point estimate.

    Attributes:
        total: Of CoE.
        aleatoric: Of U_A.
        epistemic: Of U_E.
        estimate: The three values from the responses as they are.
    """

    total: Interval
    aleatoric: Interval
    epistemic: Interval
    estimate: CollaborativeEntropy


@refuses_removed
def coe_interval(
    labels: npt.ArrayLike,
    agents: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int | np.random.Generator = 0,
) -> CoEInterval:
    """Interval of the true CoE, U_A and U_E (equations 3 to 5) of the agents on one question, equally weighted.

    The true values are those of infinitely many responses. With few responses CoE is biased low, since rare answers are
    missing, and five equal responses do not prove certainty. So this is a basic interval of a parametric bootstrap.
    With n_i(c) the number of responses of agent i in cluster c, n_i their sum, and m the number of clusters that have a
    response, agent i draws n_i responses from the smoothed distribution p_i(c) = (n_i(c) + 1/2) / (n_i + (m + 1) / 2),
    which has one unseen cluster. With q the quantiles of what the resamples measure, and s the value of the smoothed
    distributions, the interval is [2 estimate - q_high, estimate + max(estimate, s) - q_low]. It is cut off at 0, and
    widened to contain the estimate. U_E is also cut off at its maximum, which it has if no two agents share a cluster.

    An interval of confidence .95 does not contain the true CoE in .95 of all cases. With three agents in six worlds,
    and 3 to 20 responses of each, the shares are .60 to 1, and .90 on average: too few where answers are many and rare
    (.61 to .63 of the cases with 5 or fewer responses of long-tailed answers). The interval of U_A contains its true
    value in .90, that of U_E in .72, and in .40 to .68 where agents disagree. The posterior of Dirichlet rows, which
    was the other choice, contains CoE in .79, and its parts in .83 and .38.

    Args:
        labels: Shape `(n_responses,)`: the cluster of each response, from 0.
        agents: Shape `(n_responses,)`: the agent that gave it, from 0.
        confidence: In (0, 1).
        n_resamples: At least 1.
        seed: An integer, which gives the same interval again, or a generator. The draws do not depend on the order of
            responses or agents: any order gives the same ends to the last bit. The numbering of the clusters changes
            nothing either, unless different agents hold several clusters in the same way.

    Returns:
        The intervals, in nats, and the estimate. Ends are at least 0 and finite, low <= estimate <= high, and every
        interval of U_A and CoE has a width; the one of U_E is (0, 0) for one agent.

    Raises:
        TypeError: An argument is of a wrong kind.
        ValueError: As `cluster_distributions`, or `labels` has not one dimension, or `confidence` or `n_resamples` is
            out of range.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13.

    Agreement of many is better evidence than agreement of few:

        >>> few, many = (coe_interval([0] * 3 * n, [0, 1, 2] * n).total for n in (3, 30))
        >>> few[0] == many[0] == 0.0 and few[1] > many[1] > 0.0
        True

    More responses in the same shares make a narrower interval:

        >>> few = coe_interval([0, 0, 0, 1] * 2, [0] * 4 + [1] * 4)
        >>> many = coe_interval([0, 0, 0, 1] * 20, [0] * 40 + [1] * 40)
        >>> few.total[1] - few.total[0] > many.total[1] - many.total[0]
        True
        >>> round(few.estimate.total, 4) == round(many.estimate.total, 4) == 0.5623
        True
    """
    rows = cluster_distributions(labels, agents)
    must = '"labels" must have shape (n_responses,)'
    require(rows.ndim == 2, must, np.shape(labels), "Call once per question")
    share = number(confidence, '"confidence"', above=0, below=1, advice="Pass a share such as 0.95")
    n_draws = integer(n_resamples, '"n_resamples"', least=1, advice="Pass a count such as 3")

    counts: IntArray = np.zeros(rows.shape, dtype=np.int64)
    np.add.at(counts, (np.asarray(agents), np.asarray(labels)), 1)
    counts = _in_order(counts)
    n_agents, n_columns = counts.shape
    n_own = counts.sum(axis=1, keepdims=True)
    smoothed = (counts + 0.5) / (n_own + n_columns / 2.0)

    generator = np.random.default_rng(seed)
    resamples = generator.multinomial(n_own[:, 0], smoothed, size=(n_draws, n_agents))
    drawn = _split(resamples / n_own)
    levels = [(1.0 - share) / 2.0, (1.0 + share) / 2.0]
    # "weibull": one more draw would fall below with the level's probability, so few draws make no narrower interval
    q_low, q_high = np.quantile(drawn, levels, axis=0, method="weibull")

    estimate = _split(counts / n_own)
    of_smoothed = _split(smoothed)
    lows = 2.0 * estimate - q_high
    highs = np.maximum(estimate, of_smoothed) + estimate - q_low

    # the estimate of another order of the agents may differ from this one by rounding
    rounding = _ROUNDING * np.maximum(estimate, 1.0)
    lows = np.minimum(lows, estimate - rounding)
    lows = np.maximum(lows, 0.0)
    highs = np.maximum(highs, estimate + rounding)
    highs[2] = min(highs[2], _most_epistemic(n_agents, estimate[2], rounding[2]))

    total, aleatoric, epistemic = zip(lows.tolist(), highs.tolist(), strict=True)
    return CoEInterval(total, aleatoric, epistemic, estimate=collaborative_entropy(rows))


def _most_epistemic(n_agents: int, estimate: float, rounding: float) -> float:
    """Returns the most that U_E may be: that of agents which are each certain of a cluster of their own."""
    if n_agents == 1:
        return 0.0
    most = _split(np.eye(n_agents))[2]
    return float(max(most, estimate)) + rounding


def _split(rows: FloatArray) -> FloatArray:
    """Returns CoE, U_A and U_E in the last axis."""
    return np.stack(collaborative_entropy(rows), axis=-1)


def _in_order(counts: IntArray) -> IntArray:
    """Returns the counts of clusters with responses, and zeros of an unseen one, in an order of their own.

    So equal seeds draw the same in any order of agents and clusters. Clusters are ordered by their columns, each
    sorted, then by their number; agents by their rows over the clusters so ordered.
    """
    has_responses = counts.any(axis=0)
    counts = counts[:, has_responses]
    clusters_in_order = np.lexsort(np.sort(counts, axis=0))
    counts = counts[:, clusters_in_order]
    agents_in_order = np.lexsort(counts.T)
    counts = counts[agents_in_order]
    return np.pad(counts, ((0, 0), (0, 1)))
