"""Owns uncertainty from a subset of the agents that is chosen per question by Jensen-Shannon divergence."""

import math
from itertools import pairwise

from coe_agents.evaluation.metrics.tallies import FloatArray, join_ties
from coe_agents.evaluation.scoring.batched import SUBSET_TOLERANCE
from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics
from coe_agents.uncertainty import kl_divergence
from coe_agents.uncertainty.answers import TIE
from coe_agents.uncertainty.entropies import shannon


@estimator("Entropies", "Entropy of a compatible subset", "of the surest agents that hardly diverge from one another")
def divergence_subset(statistics: Statistics) -> float:
    """Entropy of the mean distribution of a compatible subset of the agents, in nats; higher = less sure.

    After Kruse et al. (2025, "MUSE"), who choose a subset of the models by Jensen-Shannon divergence and aggregate it.
    Their tasks are binary; what is computed here is: order the agents by their semantic entropy, the surest first;
    start with the first; add each next one if the generalised Jensen-Shannon divergence of the subset, U_E with equal
    weights, grows by at most 0.05 nats; the score is the entropy of the subset's mean distribution, U_A + U_E of the
    subset. Of equally sure agents the one nearest to the ensemble mean comes first, by its divergence KL(p_i || p_bar);
    of equally near ones the one whose answers come first as texts, so that no name decides. It is the spirit of the
    method, not a reproduction of its figures.
    """
    if not math.isnan(found := statistics.figures["divergence_subset"]):
        return found
    rows = statistics.distributions
    entropies: list[float] = shannon(rows).tolist()
    order = _surest_first(rows, statistics.support, entropies)
    chosen, total, epistemic = order[:1], entropies[order[0]], 0.0
    for agent in order[1:]:
        larger = [*chosen, agent]
        mixed = float(shannon(rows[larger].mean(axis=0)))
        divergence = mixed - sum(entropies[each] for each in larger) / len(larger)
        if divergence - epistemic <= SUBSET_TOLERANCE:
            chosen, total, epistemic = larger, mixed, divergence
    return total


def _surest_first(rows: FloatArray, mean: FloatArray, entropies: list[float]) -> list[int]:
    order = sorted(range(len(rows)), key=entropies.__getitem__)
    if all(entropies[after] - entropies[before] >= TIE for before, after in pairwise(order)):
        return order
    sure, near = (join_ties(values).tolist() for values in (entropies, kl_divergence(rows, mean)))
    shares = join_ties(-rows.ravel()).reshape(rows.shape)
    return sorted(order, key=lambda agent: (sure[agent], near[agent], tuple(shares[agent])))
