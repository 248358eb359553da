"""Owns uncertainty from a subset of the agents that is chosen per question by Jensen-Shannon divergence."""

import numpy as np

from coe_agents.evaluation.statistics import Statistics
from coe_agents.uncertainty import collaborative_entropy, semantic_entropy

_TOLERANCE = 0.05
"""How much divergence, in nats, one more agent may add."""


def divergence_subset(statistics: Statistics) -> float:
    """Entropy of the mean distribution of a compatible subset of the agents, in nats; higher = less sure.

    After Kruse et al. (2025, "MUSE"), who choose a subset of the models by Jensen-Shannon divergence and aggregate it.
    Their tasks are binary; what is computed here is: order the agents by their semantic entropy, the surest first
    (ties: by name); start with the first; add each next one if the generalised Jensen-Shannon divergence of the subset,
    U_E with equal weights, grows by at most 0.05 nats; the score is the entropy of the subset's mean distribution,
    U_A + U_E of the subset. It is the spirit of the method, not a reproduction of its figures.
    """
    rows = statistics.distributions
    entropies = np.atleast_1d(semantic_entropy(rows))
    order = sorted(range(len(rows)), key=lambda agent: (round(float(entropies[agent]), 12), statistics.names[agent]))
    chosen, split = order[:1], collaborative_entropy(rows[order[:1]])
    for agent in order[1:]:
        larger = collaborative_entropy(rows[[*chosen, agent]])
        if larger.epistemic - split.epistemic <= _TOLERANCE:
            chosen, split = [*chosen, agent], larger
    return float(split.total)
