"""Owns the estimators that count votes; higher = less sure."""

from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics


@estimator("Agreement", "Vote share", "1 - the leading meaning's share of the group")
def vote_share(statistics: Statistics) -> float:
    """1 - the leading cluster's share of the ensemble mean, in [0, 1); higher = less sure."""
    return statistics.figures["vote_share"]


@estimator("Agreement", "Self-consistency", "1 - the share of each agent's own most frequent meaning, mean of agents")
def self_consistency(statistics: Statistics) -> float:
    """1 - the mean over agents of the share of their own most frequent cluster, in [0, 1); higher = less sure.

    Each agent's agreement with itself (Wang et al., 2023), whatever the others answer.
    """
    return statistics.figures["self_consistency"]


@estimator("Agreement", "Disagreement between agents", "chance that responses of two agents differ")
def disagreement(statistics: Statistics) -> float:
    """Probability that a response of one agent and one of another differ in meaning; higher = less sure.

    1 - the mean over pairs i != j of sum_c p_i(c) p_j(c); `pooled_disagreement` where only one agent responded.
    """
    return statistics.figures["disagreement"]


@estimator("Agreement", "Disagreement, pooled", "chance that any two responses of the group differ")
def pooled_disagreement(statistics: Statistics) -> float:
    """Probability that two responses drawn from the ensemble mean differ, 1 - sum_c p_bar(c)^2; higher = less sure."""
    return statistics.figures["pooled_disagreement"]
