"""Owns the interval of Collaborative Entropy: the range of the agents' true value, given few responses."""

from __future__ import annotations  # annotations would import `numpy.random` at every start

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer, number
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, decompose, most_epistemic
from coe_agents.uncertainty.distributions import OneQuestion, one_question
from coe_agents.uncertainty.divergences import Divergence, kernel

Interval = tuple[float, float]
Split = Callable[[FloatArray], FloatArray]
"""CoE, U_A and U_E, shape `(3, n_draws)`, of rows, shape `(n_agents, n_clusters, n_draws)`, which sum to 1."""
Draw = Callable[[FloatArray], None]
"""Draws rows of this kind into an array that it is given."""

_N_UNSEEN = 2
"""Unseen clusters: those that no response is in. The bootstrap adds one of them."""
_CONCENTRATIONS = np.array([0.03, 0.06, 0.12, 0.25, 0.5, 1.0])
"""Of the Dirichlet rows: how many responses each cluster is thought to have before any is seen."""
_RANK_BITS = 11
_N_QUANTILES = 1 << _RANK_BITS
"""Cells without a response, mostly the largest part, draw their gamma variates from so many quantiles."""
_SMALLEST = 5e-324
_ROUNDING = 1e-12
_BLOCK = 16_384
"""How many numbers of resamples are drawn and measured at once: few enough for the processor's cache."""
_FEWEST = 16
"""So many resamples are drawn at once at least: NumPy takes long to sum many short rows."""
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
    divergence: Divergence = "kl",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int | np.random.Generator = 0,
) -> CoEInterval:
    """Interval of the true CoE, U_A and U_E (equations 3 to 5) of the agents on one question.

    The true values are those of infinitely many responses. With few responses CoE is biased low, since rare answers are
    missing, and five equal responses do not prove certainty. So this is the smallest interval that contains the
    estimate and the following two intervals, their hull. Here n_i(c) is the number of responses of agent i in cluster
    c, n_i their sum, and m the number of clusters that have a response:

    - A basic interval of a parametric bootstrap. Agent i draws n_i responses from the smoothed distribution
      p_i(c) = (n_i(c) + 1/2) / (n_i + (m + 1) / 2), which has one unseen cluster. With q the quantiles
      of what the resamples measure, it is [2 estimate - q_high, estimate + max(estimate, s) - q_low], cut off at 0,
      where s is the value of the smoothed distributions.
    - A posterior interval. Each agent's row is Dirichlet(n_i(c) + a) over the m clusters and two unseen ones;
      a is one of .03, .06, .12, .25, .5, 1, each with the probability of the responses under it (the marginal
      likelihood) as its weight. Its ends are quantiles of the values of such rows.

    U_E is also cut off at its maximum, which it has if no two agents share a cluster.

    `benchmarks/interval_coverage.py` prints how often an interval of confidence .95 contains the true CoE of three
    agents in made-up worlds. With 5 or 10 responses each, the hull does so in .99 or more of the cases where agents are
    sure and agree, hesitate between two answers, disagree, or are moderately unsure; the percentiles of a bootstrap do
    so in .00 to .94. With long-tailed answers the coverage of the hull is too low as well: .61 with 5 responses, .85
    with 10 (percentiles: .02 and .15); with real answers to questions of mathematics .74 and .87 (.21 and .37).

    Args:
        labels: Shape `(n_responses,)`: the cluster of each response, from 0.
        agents: Shape `(n_responses,)`: the agent that gave it, from 0.
        log_probs: Shape `(n_responses,)`: length-normalised log-probabilities, as in `cluster_distributions`. Resamples
            then draw weighed responses; one from the smoothing weighs what the agent's in that cluster do on average,
            or all of the agent's where it has none there. For the posterior an agent's responses of weights v are
            worth (sum v)^2 / sum v^2 equal ones (Kish's effective sample size), shared out by its distribution.
            Responses of -inf are left out.
        weights: Shape `(n_agents,)`, summing to 1; None: 1 / n_agents each. An agent of weight 0 counts in U_A only.
        divergence: As in `collaborative_entropy`, without a ground metric.
        confidence: In (0, 1).
        n_resamples: At least 1; one half are resamples and the other draws from the posterior, rounded up.
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
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13. Wolpert and Wolf, Estimating
        functions of probability distributions from a finite set of samples, Physical Review E 52, 1995.

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
    coe = decompose(question.rows, question.weights, kernel(divergence, None, question.rows.shape[1]))
    return interval_of(question, coe, divergence, confidence=share, n_resamples=n_resamples, seed=seed)


def interval_of(
    question: OneQuestion,
    coe: CollaborativeEntropy,
    divergence: Divergence,
    *,
    n_resamples: int,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> CoEInterval:
    """Interval of checked responses, whose CoE is known; see `coe_interval`."""
    asked = integer(n_resamples, '"n_resamples"', least=1, advice="Pass a count such as 3")
    n_draws = (asked + 1) // 2  # half of them are of the bootstrap
    evidence = _evidence(question.labels, question.agents, question.log_probs, question.weights)
    split = _split(evidence, divergence)
    generator = np.random.default_rng(seed)
    table, smoothed = _smooth(evidence)
    estimate, centre = split(np.stack([evidence.rows, smoothed], axis=-1)).T

    draw, draw_true = _bootstrap(evidence, table, generator), _posterior(evidence, n_draws, generator)
    found = []
    for size in _blocks(n_draws, max(2 * evidence.rows.size, evidence.table.owners.size)):
        rows = np.empty((*evidence.rows.shape, 2 * size))
        draw(rows[..., :size])
        draw_true(rows[..., size:])
        both = split(rows)
        found.append(np.concatenate([both[:, :size], both[:, size:]]))
    levels = np.array([(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    # below which one more draw would fall with the level's probability, so that few draws make no narrower interval
    places = np.maximum(levels * (n_draws + 1) - 1.0, 0.0)
    low, high = _quantiles(np.concatenate(found, axis=1), places).T

    # the estimate of another order of the agents may differ from this one by rounding
    rounding = _ROUNDING * np.maximum(estimate, 1.0)
    lows = np.maximum(np.minimum(2.0 * estimate - high[:3], np.minimum(low[3:], estimate - rounding)), 0.0)
    highs = np.maximum(estimate, centre) + estimate - low[:3]
    highs = np.maximum(highs, np.maximum(high[3:], estimate + rounding))
    most = most_epistemic(evidence.weights, divergence) + _ROUNDING if evidence.weights.size > 1 else 0.0
    highs[2] = min(highs[2], max(most, estimate[2] * (1.0 + _ROUNDING)))
    total, aleatoric, epistemic = zip(lows.tolist(), highs.tolist(), strict=True)
    return CoEInterval(total, aleatoric, epistemic, coe, confidence, asked)


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
        rows: The agents' distributions, with columns of zeros for unseen clusters.
        effective: How many equal responses each agent's are worth.
        weights: The agents' weights.
        n_clusters: How many clusters have a response.
    """

    table: _Table
    rows: FloatArray
    effective: FloatArray
    weights: FloatArray
    n_clusters: int


def _evidence(labels: IntArray, agents: IntArray, logs: FloatArray | None, weights: FloatArray) -> _Evidence:
    n_agents, n_clusters = weights.size, int(labels.max()) + 1
    scores = np.zeros(labels.size) if logs is None else logs
    # summed in this order, so that rounding is the same in any order of the responses
    order = np.lexsort((scores, labels, agents))
    order = order[scores[order] > -np.inf]
    labels, agents, scores = labels[order], agents[order], scores[order]
    n_own = np.bincount(agents)
    ends = n_own.cumsum()
    scores = scores - np.maximum.reduceat(scores, ends - n_own)[agents]
    relative = np.exp(scores)
    weighed = np.bincount(agents * n_clusters + labels, relative, n_agents * n_clusters)
    masses = np.asarray(weighed, dtype=np.float64).reshape(n_agents, n_clusters)
    each = scores.tolist()
    own = [each[end - n : end] for n, end in zip(n_own.tolist(), ends.tolist(), strict=True)]
    by_agent, clusters = canonical_order(masses, list(zip(weights, own, strict=True)))
    clusters = clusters[np.bincount(labels, minlength=n_clusters)[clusters] > 0]
    rows = np.zeros((n_agents, clusters.size + _N_UNSEEN))
    rows[:, : clusters.size] = masses[by_agent][:, clusters]
    sums = rows.sum(axis=1)

    places = np.zeros(n_clusters, dtype=np.int64)
    places[clusters] = np.arange(clusters.size)
    labels, agents = places[labels], np.argsort(by_agent)[agents]
    order = np.lexsort((scores, labels, agents))
    return _Evidence(
        table=_Table(agents[order], labels[order], scores[order]),
        rows=rows / sums[:, None],
        effective=sums**2 / np.bincount(agents[order], relative[order] ** 2),
        weights=weights[by_agent],
        n_clusters=clusters.size,
    )


def _split(evidence: _Evidence, divergence: Divergence) -> Split:
    if divergence == "kl":
        return partial(_split_by_entropies, weights=evidence.weights)
    measure = kernel(divergence, None, evidence.rows.shape[1])
    return lambda rows: np.stack(decompose(np.moveaxis(rows, -1, 0), evidence.weights, measure))


def _split_by_entropies(rows: FloatArray, *, weights: FloatArray) -> FloatArray:
    """CoE under the Kullback-Leibler divergence, where U_E = H(p_bar) - sum_i w_i H(p_i)."""
    entropies = _entropy(rows)
    mean = weights @ rows.reshape(weights.size, -1)
    split = np.empty((3, rows.shape[-1]))
    np.divide(entropies.sum(axis=0), weights.size, out=split[1])
    np.maximum(_entropy(mean.reshape(rows.shape[1:])) - weights @ entropies, 0.0, out=split[2])
    np.add(split[1], split[2], out=split[0])
    return split


def _entropy(rows: FloatArray) -> FloatArray:
    """H over the axis before the last; on blocks that fit the cache NumPy's logarithm is faster than scipy's `entr`."""
    terms = np.maximum(rows, _SMALLEST)
    np.log(terms, out=terms)
    np.multiply(rows, terms, out=terms)
    return np.asarray(0.0 - terms.sum(axis=-2))


def _smooth(evidence: _Evidence) -> tuple[_Table, FloatArray]:
    """Returns the responses, each twice, with one for each cluster and one that is new; and their distributions."""
    n_agents, n_clusters = evidence.rows.shape[0], evidence.n_clusters + 1
    own = evidence.table
    cells = own.owners * n_clusters + own.labels
    counts = np.bincount(cells, minlength=n_agents * n_clusters).reshape(n_agents, n_clusters)
    sums = np.bincount(cells, np.exp(np.maximum(own.scores, _LOWEST)), counts.size)
    typical = typical_masses(np.asarray(sums, dtype=np.float64).reshape(counts.shape), counts)
    smoothed = np.zeros(evidence.rows.shape)
    smoothed[:, :-1] = (2 * counts + 1) * typical
    places = np.concatenate([cells, cells, np.arange(counts.size)])
    order = np.argsort(places, kind="stable")
    scores = np.concatenate([own.scores, own.scores, np.log(typical.ravel())])
    table = _Table(*np.divmod(places[order], n_clusters), scores[order])
    return table, smoothed / smoothed.sum(axis=1, keepdims=True)


def typical_masses(masses: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """Returns what one response of an agent in a cluster weighs, on average; of all the agent's where it has none."""
    overall = masses.sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    return np.where(counts > 0, masses / np.maximum(counts, 1), overall)


def _bootstrap(evidence: _Evidence, table: _Table, generator: np.random.Generator) -> Draw:
    shape, n_cells, owners = evidence.rows.shape, evidence.rows.size, evidence.table.owners
    n_each, n_own = np.bincount(owners), np.bincount(table.owners)
    firsts, starts = n_each.cumsum() - n_each, (n_own.cumsum() - n_own)[owners]
    spans, cells, scores = n_own[owners], table.owners * shape[1] + table.labels, table.scores
    masses = np.exp(scores)

    def draw(out: FloatArray) -> None:
        size = out.shape[-1]
        # cut off before the start is added, which could round a place up into the next agent's
        drawn = (generator.random((size, owners.size)) * spans).astype(np.int64) + starts
        bins = ((cells * size).take(drawn) + np.arange(size)[:, None]).ravel()
        if not scores.any():
            counts = np.bincount(bins, minlength=n_cells * size).reshape(*shape, size)
            np.divide(counts, n_each[:, None, None], out=out)
            return
        weights = masses.take(drawn)
        if scores.min() < _LOWEST:  # relative to the resample's own highest, so that not all underflow
            weights = scores.take(drawn)
            weights = np.exp(weights - np.maximum.reduceat(weights, firsts, axis=1)[:, owners])
        sums = np.bincount(bins, weights.ravel(), minlength=n_cells * size).reshape(*shape, size)
        np.divide(sums, sums.sum(axis=1, keepdims=True), out=out)

    return draw


def _posterior(evidence: _Evidence, n_draws: int, generator: np.random.Generator) -> Draw:
    from scipy.special import gammaln

    counts = evidence.rows * evidence.effective[:, None]
    is_seen = counts > 0.0
    seen, unseen = is_seen.nonzero(), (~is_seen).nonzero()
    own = counts[seen]
    n_clusters, grid = evidence.rows.shape[1], _CONCENTRATIONS[:, None]
    likelihoods = (gammaln(grid + own) - gammaln(grid)).sum(axis=1)
    likelihoods -= (gammaln(grid * n_clusters + evidence.effective) - gammaln(grid * n_clusters)).sum(axis=1)
    chances = np.exp(likelihoods - likelihoods.max())
    # each concentration has its share of the draws, without chance
    shares = (np.arange(n_draws) + 0.5) * (chances.sum() / n_draws)
    chosen = np.searchsorted(chances.cumsum(), shares)
    concentrations, offsets = _CONCENTRATIONS[chosen], (chosen * _N_QUANTILES).astype(np.uint16)
    quantiles = _gamma_quantiles()
    n_drawn = 0

    def draw(out: FloatArray) -> None:
        nonlocal n_drawn
        size = out.shape[-1]
        part, n_drawn = slice(n_drawn, n_drawn + size), n_drawn + size
        out[seen] = generator.standard_gamma(own[:, None] + concentrations[part])
        # the upper bits of whole numbers: the same ranks as if drawn below `_N_QUANTILES`, which takes twice as long
        ranks = generator.integers(0, 1 << 16, (unseen[0].size, size), dtype=np.uint16) >> (16 - _RANK_BITS)
        out[unseen] = quantiles.take(ranks + offsets[part])
        out /= out.sum(axis=1, keepdims=True)

    return draw


@cache
def _gamma_quantiles() -> FloatArray:
    """Returns quantiles of the gamma distribution of each concentration, in the middle of equally likely parts."""
    from scipy.special import gammaincinv

    parts = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    return np.asarray(gammaincinv(_CONCENTRATIONS[:, None], parts)).ravel()


def _blocks(n_draws: int, n_numbers: int) -> Iterator[int]:
    most = max(_FEWEST, _BLOCK // n_numbers)
    for start in range(0, n_draws, most):
        yield min(most, n_draws - start)


def _quantiles(values: FloatArray, places: FloatArray) -> FloatArray:
    """Returns the values at places of each ordered row, from 0, linear in between: shape `(n_rows, n_places)`."""
    ordered, below = np.sort(values), places.astype(np.int64)
    above = np.minimum(below + 1, values.shape[1] - 1)
    return np.asarray(ordered[:, below] + (places - below) * (ordered[:, above] - ordered[:, below]))


def canonical_order(masses: FloatArray, traits: Sequence[tuple[Any, ...]]) -> tuple[IntArray, IntArray]:
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
