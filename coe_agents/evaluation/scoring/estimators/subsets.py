"""Owns uncertainty from a subset of the agents that is chosen per question by Jensen-Shannon divergence."""

from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics


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
    return statistics.figures["divergence_subset"]
