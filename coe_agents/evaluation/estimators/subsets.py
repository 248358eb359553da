"""Owns uncertainty from a subset of the agents that is chosen per question by Jensen-Shannon divergence."""

from coe_agents.evaluation.statistics import Statistics
from coe_agents.uncertainty.entropies import shannon

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
    entropies: list[float] = shannon(rows).tolist()
    order = sorted(range(len(rows)), key=lambda agent: (round(entropies[agent], 12), statistics.names[agent]))
    chosen, total, epistemic = order[:1], entropies[order[0]], 0.0
    for agent in order[1:]:
        larger = [*chosen, agent]
        mixed = float(shannon(rows[larger].mean(axis=0)))
        divergence = mixed - sum(entropies[each] for each in larger) / len(larger)
        if divergence - epistemic <= _TOLERANCE:
            chosen, total, epistemic = larger, mixed, divergence
    return total
