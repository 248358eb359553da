"""Owns the interval of Collaborative Entropy: the range of the agents' true value, given few responses."""

from __future__ import annotations  # annotations would import `numpy.random` at every start

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer, number
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, decompose
from coe_agents.uncertainty.distributions import OneQuestion, one_question
from coe_agents.uncertainty.divergences import kernel

Interval = tuple[float, float]

_ROUNDING = 1e-12
_BLOCK = 1_000_000
"""About how many numbers of resamples are held at once."""
_LOWEST = -600.0
"""Below this log-probability, relative to the agent's highest, a mass could underflow."""


@dataclass(frozen=True, slots=True)
class CoEInterval:
    """Intervals of CoE and its parts, each `(low, high)`, and the point estimate.

    Attributes:
        total: Of CoE.
        aleatoric: Of U_A.
        epistemic: Of U_E.
        estimate: The three values from the responses as they are.
        confidence: The confidence asked for.
        n_resamples: The number of resamples asked for.
    """

    total: Interval
    aleatoric: Interval
    epistemic: Interval
    estimate: CollaborativeEntropy
    confidence: float
    n_resamples: int


def coe_interval(
    labels: npt.ArrayLike,
    agents: npt.ArrayLike,
    *,
    log_probs: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    divergence: str = "kl",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int | np.random.Generator = 0,
) -> CoEInterval:
    """Interval of the true CoE, U_A and U_E (equations 3 to 5) of the agents on one question.

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
        log_probs: Shape `(n_responses,)`: length-normalised log-probabilities, as in `cluster_distributions`. Resamples
            then draw weighed responses; one from the smoothing weighs what the agent's in that cluster do on average,
            or all of the agent's where it has none there. Responses of -inf are left out.
        weights: Shape `(n_agents,)`, summing to 1; None: 1 / n_agents each. An agent of weight 0 counts in U_A only.
        divergence: As in `collaborative_entropy`, without a ground metric.
        confidence: In (0, 1).
        n_resamples: At least 1.
        seed: An integer, which gives the same interval again, or a generator. The draws do not depend on the order of
            responses or agents: any order gives the same ends to the last bit. The numbering of the clusters changes
            nothing either, unless different agents hold several clusters in the same way.

    Returns:
        The intervals, in nats (see `collaborative_entropy` for divergences without a unit), and the estimate. Ends are
        at least 0 and finite, low <= estimate <= high, and every interval of U_A and CoE has a width; the one of U_E is
        (0, 0) for one agent.

    Raises:
        TypeError: An argument is of a wrong kind.
        ValueError: As `cluster_distributions` and `collaborative_entropy`, or `labels` has not one dimension, or
            `confidence` or `n_resamples` is out of range.

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
    question = one_question(labels, agents, log_probs, weights)
    share = number(confidence, '"confidence"', above=0, below=1, advice="Pass a share such as 0.95")
    n_draws = integer(n_resamples, '"n_resamples"', least=1, advice="Pass a count such as 3")
    measure = kernel(divergence, None, question.rows.shape[1])
    evidence = _evidence(question)

    def split(rows: FloatArray) -> FloatArray:
        """CoE, U_A and U_E in the last axis."""
        return np.stack(decompose(rows, evidence.weights, measure), axis=-1)

    table, smoothed = _smooth(evidence)
    estimate = split(evidence.rows)
    centre = split(smoothed)
    generator = np.random.default_rng(seed)
    drawn = np.concatenate([split(rows) for rows in _resample(evidence, table, n_draws, generator)])
    levels = [(1.0 - share) / 2.0, (1.0 + share) / 2.0]
    # "weibull": one more draw would fall below with the level's probability, so few draws make no narrower interval
    low, high = np.quantile(drawn, levels, axis=0, method="weibull")

    # the estimate of another order of the agents may differ from this one by rounding
    rounding = _ROUNDING * np.maximum(estimate, 1.0)
    lows = np.minimum(2.0 * estimate - high, estimate - rounding)
    lows = np.maximum(lows, 0.0)
    highs = np.maximum(estimate, centre) + estimate - low
    highs = np.maximum(highs, estimate + rounding)
    n_agents = evidence.weights.size
    if n_agents == 1:
        highs[2] = 0.0
    else:
        # of agents that are each certain of a cluster of their own
        most = split(np.eye(n_agents))[2]
        highs[2] = min(highs[2], max(most, estimate[2]) + rounding[2])
    total, aleatoric, epistemic = zip(lows.tolist(), highs.tolist(), strict=True)
    return CoEInterval(
        total=total,
        aleatoric=aleatoric,
        epistemic=epistemic,
        estimate=decompose(question.rows, question.weights, measure),
        confidence=share,
        n_resamples=n_draws,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """Responses to draw from.

    Attributes:
        owners: The agent of each response; ascending.
        labels: Its cluster.
        scores: Its log-probability less its agent's highest; 0 for all if all responses weigh the same.
    """

    owners: IntArray
    labels: IntArray
    scores: FloatArray


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The responses that weigh something, in an order that depends on nothing but them.

    Attributes:
        table: The responses.
        rows: The agents' distributions, with a column of zeros at the end for an unseen cluster.
        weights: The agents' weights.
    """

    table: _Table
    rows: FloatArray
    weights: FloatArray


def _evidence(question: OneQuestion) -> _Evidence:
    n_agents = question.weights.size
    n_clusters = int(question.labels.max()) + 1
    scores = question.log_probs
    if scores is None:
        scores = np.zeros(question.labels.size)
    # summed in this order, so that rounding is the same in any order of the responses
    order = np.lexsort((scores, question.labels, question.agents))
    order = order[scores[order] > -np.inf]
    labels = question.labels[order]
    agents = question.agents[order]
    scores = scores[order]

    n_own = np.bincount(agents)
    ends = n_own.cumsum()
    starts = ends - n_own
    scores = scores - np.maximum.reduceat(scores, starts)[agents]
    cells = agents * n_clusters + labels
    weighed = np.bincount(cells, np.exp(scores), n_agents * n_clusters)
    masses = np.asarray(weighed, dtype=np.float64).reshape(n_agents, n_clusters)
    traits = []
    for weight, start, end in zip(question.weights, starts, ends, strict=True):
        traits.append((weight, scores[start:end].tolist()))
    by_agent, clusters = _canonical_order(masses, traits)
    clusters = clusters[np.bincount(labels, minlength=n_clusters)[clusters] > 0]
    rows = np.zeros((n_agents, clusters.size + 1))
    rows[:, :-1] = masses[by_agent][:, clusters]

    places = np.zeros(n_clusters, dtype=np.int64)
    places[clusters] = np.arange(clusters.size)
    labels = places[labels]
    agents = np.argsort(by_agent)[agents]
    order = np.lexsort((scores, labels, agents))
    return _Evidence(
        table=_Table(agents[order], labels[order], scores[order]),
        rows=rows / rows.sum(axis=1, keepdims=True),
        weights=question.weights[by_agent],
    )


def _smooth(evidence: _Evidence) -> tuple[_Table, FloatArray]:
    """Returns the responses, each twice, with one for each cluster and one that is new; and their distributions."""
    n_agents, n_clusters = evidence.rows.shape
    n_cells = n_agents * n_clusters
    table = evidence.table
    cells = table.owners * n_clusters + table.labels
    counts = np.bincount(cells, minlength=n_cells).reshape(n_agents, n_clusters)
    sums = np.bincount(cells, np.exp(np.maximum(table.scores, _LOWEST)), n_cells)
    masses = np.asarray(sums, dtype=np.float64).reshape(counts.shape)
    typical = _typical_masses(masses, counts)
    smoothed = (2 * counts + 1) * typical

    places = np.concatenate([cells, cells, np.arange(n_cells)])
    order = np.argsort(places, kind="stable")
    owners, labels = np.divmod(places[order], n_clusters)
    scores = np.concatenate([table.scores, table.scores, np.log(typical.ravel())])
    twice_and_one = _Table(owners, labels, scores[order])
    return twice_and_one, smoothed / smoothed.sum(axis=1, keepdims=True)


def _typical_masses(masses: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """Returns what one response of an agent in a cluster weighs, on average; of all the agent's where it has none."""
    overall = masses.sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    each = masses / np.maximum(counts, 1)
    return np.where(counts > 0, each, overall)


def _resample(
    evidence: _Evidence, table: _Table, n_draws: int, generator: np.random.Generator
) -> Iterator[FloatArray]:
    """Yields the rows of resamples, in which each agent draws as many responses from a table as it gave."""
    owners = evidence.table.owners
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    n_own = np.bincount(table.owners)
    starts = (n_own.cumsum() - n_own)[owners]
    spans = n_own[owners]
    most = max(1, _BLOCK // max(evidence.rows.size, owners.size))
    for start in range(0, n_draws, most):
        size = min(most, n_draws - start)
        # cut off before the start is added, which could round a place up into the next agent's
        places = (generator.random((size, owners.size)) * spans).astype(np.int64)
        places += starts
        scores = table.scores[places]
        # relative to the resample's own highest, so that not all underflow
        highest = np.maximum.reduceat(scores, firsts, axis=1)
        masses = np.exp(scores - highest[:, owners])
        rows = np.zeros((size, *evidence.rows.shape))
        draws = np.arange(size)[:, None]
        np.add.at(rows, (draws, owners, table.labels[places]), masses)
        yield rows / rows.sum(axis=-1, keepdims=True)


def _canonical_order(
    masses: FloatArray, traits: Sequence[tuple[Any, ...]]
) -> tuple[IntArray, IntArray]:
    """Returns the agents and the clusters in order, so that equal seeds draw the same in any order of both.

    Clusters are ordered by their columns of masses, each sorted, then by their number; agents by their rows of masses
    over the clusters so ordered, then by their traits. So the order of the agents changes nothing at all, and the
    numbering of the clusters nothing, unless several clusters hold the same masses, of agents that differ.

    Args:
        masses: Shape `(n_agents, n_clusters)`: what each agent's responses in a cluster weigh together.
        traits: Of each agent: all else in which agents may differ.
    """
    clusters = np.lexsort(np.sort(masses, axis=0))
    rows = masses[:, clusters].tolist()
    agents = sorted(range(len(rows)), key=lambda agent: (rows[agent], traits[agent]))
    return np.array(agents), clusters
