"""Computes the percentile bootstrap of CoE, with which the interval of the package is compared; for other scripts."""

import numpy as np
import numpy.typing as npt

from coe_agents.uncertainty.distributions import one_question
from coe_agents.uncertainty.intervals import Interval, _blocks, _bootstrap, _evidence, _quantiles, _split


def percentile_interval(
    labels: npt.ArrayLike,
    agents: npt.ArrayLike,
    *,
    log_probs: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    divergence: str = "kl",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[Interval, Interval, Interval]:
    """Returns the quantiles of CoE, U_A and U_E where each agent's responses are resampled with replacement.

    They show how much the figures depend on the responses drawn, and do not cover the true values: with unanimous
    responses they have no width, and in general they are too low. The arguments are those of `coe_interval`.
    """
    question = one_question(labels, agents, log_probs, weights)
    evidence = _evidence(question.labels, question.agents, question.log_probs, question.weights)
    split, draw = _split(evidence, divergence), _bootstrap(evidence, evidence.table, np.random.default_rng(seed))
    found = []
    for size in _blocks(n_resamples, max(evidence.rows.size, evidence.table.owners.size)):
        rows = np.empty((*evidence.rows.shape, size))
        draw(rows)
        found.append(split(rows))
    levels = np.array([(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    ends = _quantiles(np.concatenate(found, axis=1), levels * (n_resamples - 1))
    total, aleatoric, epistemic = ((low, high) for low, high in ends.tolist())
    return total, aleatoric, epistemic
