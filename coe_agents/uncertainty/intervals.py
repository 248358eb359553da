"""Owns the bootstrap interval of Collaborative Entropy: how far it hangs on which responses were sampled."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.collaborative import CollaborativeEntropy, decompose
from coe_agents.uncertainty.distributions import checked_log_probs, cluster_distributions
from coe_agents.uncertainty.divergences import kernel

Interval = tuple[float, float]

_BLOCK = 8_192
"""How many numbers of resamples are drawn and measured at once: few enough for the processor's cache."""
_LOWEST = -600.0
"""Below this log-probability, relative to the agent's highest, a mass could underflow."""


@dataclass(frozen=True, slots=True)
class CoEInterval:
    """Bootstrap intervals, each `(low, high)`, and the point estimate that they surround, more or less.

    Attributes:
        total: Of CoE.
        aleatoric: Of U_A.
        epistemic: Of U_E.
        estimate: The three values from the responses as they are, with the same correction.
        confidence: The share of resamples inside each interval.
        n_resamples: How many resamples were drawn.
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
    ground_metric: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int | np.random.Generator = 0,
    correction: Literal["miller-madow"] | None = None,
) -> CoEInterval:
    """Percentile bootstrap interval of CoE, U_A and U_E (equations 3 to 5) for one question.

    Each resample draws, within each agent, as many responses as it gave, with replacement; the clusters stay. The ends
    are the (1 - confidence) / 2 and (1 + confidence) / 2 quantiles over the resamples.

    What it does not do. The entropy of a sample is too low on average, by about (m - 1) / (2 n) for n responses in
    m clusters, and a resample loses clusters once more: the interval sits too low, the estimate may lie near its
    upper end or above it, and it covers the agents' true entropy less often than `confidence` says, the more so the
    fewer the responses: in a simulation of two agents and three clusters, 63 % of 95 % intervals held the true CoE
    at 5 responses per agent, 82 % at 10, 91 % at 50 (`benchmarks/interval_coverage.py`). U_E errs the other way, by
    about (n_agents - 1) (m - 1) / (2 n_agents n): agents of equal distributions differ by chance in what they
    sampled. Where all responses of all agents agree, every resample is the same and the interval has no width,
    although five equal responses are no proof. It says how much the figure hangs on the responses drawn, no more.

    Args:
        labels: Shape `(n_responses,)`: the cluster of each response, from 0.
        agents: Shape `(n_responses,)`: the agent that gave it, from 0.
        log_probs: Shape `(n_responses,)`: length-normalised log-probabilities, as in `cluster_distributions`. Responses
            of -inf weigh nothing and are not drawn.
        weights: Shape `(n_agents,)`, summing to 1; None: 1 / n_agents each.
        divergence: As in `collaborative_entropy`.
        ground_metric: As in `collaborative_entropy`; with one, each resample solves linear programs, which is slow.
        confidence: In (0, 1).
        n_resamples: At least 1.
        seed: An integer, which gives the same interval again, or a generator.
        correction: "miller-madow" adds (m - 1) / (2 n) to each agent's entropy, in the estimate and in every resample,
            and so to U_A and the total; U_E stays. It takes the bias of first order out of U_A. The total, in which
            the errors of U_A and U_E largely cancel, then errs high, and may exceed log(n_clusters). With `log_probs`
            it is a rule of thumb, as its derivation is for frequencies.

    Returns:
        The intervals, in nats (see `collaborative_entropy` for divergences without a unit), and the estimate.

    Raises:
        TypeError: An argument is of a wrong kind.
        ValueError: As `cluster_distributions` and `collaborative_entropy`, or `labels` has not one dimension, or
            `confidence`, `n_resamples` or `correction` is out of range.

    More responses in the same shares make a narrower interval:

        >>> few = coe_interval([0, 0, 0, 1] * 2, [0] * 4 + [1] * 4)
        >>> many = coe_interval([0, 0, 0, 1] * 20, [0] * 40 + [1] * 40)
        >>> few.total[1] - few.total[0] > many.total[1] - many.total[0]
        True
        >>> round(few.estimate.total, 4) == round(many.estimate.total, 4) == 0.5623
        True
    """
    rows = cluster_distributions(labels, agents, log_probs=log_probs)
    if rows.ndim != 2:
        raise ValueError(
            f'"labels" must have shape (n_responses,); it has shape {np.shape(labels)}. Call once per question'
        )
    share = _checks.amount(confidence, "confidence", hint="Pass a share such as 0.95")
    if not 0.0 < share < 1.0:
        raise ValueError(f'"confidence" must be above 0 and below 1; it is {share:.9g}. Pass a share such as 0.95')
    if correction not in (None, "miller-madow"):
        raise ValueError(f'"correction" must be a known name; it is {correction!r}. Pass None or "miller-madow"')
    n_draws = _checks.count(n_resamples, "n_resamples")
    agent_weights = _checks.weights(weights, rows.shape)
    measure = kernel(divergence, ground_metric, rows.shape[-1])

    label_array, agent_array = np.asarray(labels, dtype=np.int64), np.asarray(agents, dtype=np.int64)
    per_agent = np.bincount(agent_array)
    if np.count_nonzero(np.bincount(agent_array * rows.shape[1] + label_array)) == rows.shape[0]:
        blocks = iter([rows[None]])  # each agent's responses are in one cluster, whichever are drawn
    else:
        logs = np.zeros(agent_array.shape)
        if log_probs is not None:
            logs = checked_log_probs(log_probs, agent_array.shape, agent_array)
        blocks = _resamples(label_array, agent_array, logs, shape=rows.shape, n_draws=n_draws, seed=seed)
    splits = [_corrected(decompose(block, agent_weights, measure), block, per_agent, correction) for block in blocks]
    drawn = np.concatenate([np.stack(split) for split in splits], axis=1)
    low, high = np.quantile(drawn, [(1.0 - share) / 2.0, (1.0 + share) / 2.0], axis=1)
    estimate = _corrected(decompose(rows, agent_weights, measure), rows, per_agent, correction)
    total, aleatoric, epistemic = zip(low.tolist(), high.tolist(), strict=True)
    return CoEInterval(total, aleatoric, epistemic, estimate, share, n_draws)


def _resamples(
    labels: IntArray,
    agents: IntArray,
    logs: FloatArray,
    *,
    shape: tuple[int, ...],
    n_draws: int,
    seed: int | np.random.Generator,
) -> Iterator[FloatArray]:
    """Yields blocks of resampled rows, shape `(some, n_agents, n_clusters)`.

    The order of an agent's responses changes nothing, nor does the size of the blocks.
    """
    order = np.lexsort((logs, labels, agents))
    order = order[logs[order] > -np.inf]
    owners, cells = agents[order], agents[order] * shape[1] + labels[order]
    n_own = np.bincount(owners)
    starts = n_own.cumsum() - n_own
    scores = logs[order] - np.maximum.reduceat(logs[order], starts)[owners]
    masses, generator = np.exp(scores), np.random.default_rng(seed)
    n_cells = shape[0] * shape[1]
    per_block = max(1, _BLOCK // max(order.size, n_cells))
    for start in range(0, n_draws, per_block):
        size = min(per_block, n_draws - start)
        # cut off before the start is added, which could round a place up into the next agent's
        drawn = (generator.random((size, order.size)) * n_own[owners]).astype(np.int64) + starts[owners]
        weights = masses.take(drawn)
        if scores.min() < _LOWEST:  # relative to the resample's own highest, so that not all underflow
            weights = scores.take(drawn)
            weights = np.exp(weights - np.maximum.reduceat(weights, starts, axis=1)[:, owners])
        bins = cells.take(drawn) + np.arange(0, size * n_cells, n_cells)[:, None]
        sums = np.bincount(bins.ravel(), weights.ravel(), minlength=size * n_cells).reshape(size, *shape)
        yield sums / sums.sum(axis=-1, keepdims=True)


def _corrected(
    split: CollaborativeEntropy, rows: FloatArray, per_agent: IntArray, correction: str | None
) -> CollaborativeEntropy:
    """Adds the mean over agents of (m - 1) / (2 n) to the aleatoric part and the total."""
    if correction is None:
        return split
    biases = ((rows > 0.0).sum(axis=-1) - 1) / (2.0 * per_agent)
    bias = _checks.plain(np.asarray(biases.mean(axis=-1)))
    return CollaborativeEntropy(split.total + bias, split.aleatoric + bias, split.epistemic)
