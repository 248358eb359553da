"""Owns scoring: statistics of each question, estimators over them, the criterion of correctness, and score vectors."""

from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, Prediction, Rule, SameMeaning
from coe_agents.evaluation.scoring.scored_question import ScoringSetup
from coe_agents.evaluation.scoring.scores import Scores, score, score_samples
from coe_agents.evaluation.scoring.statistics import Statistics, iter_statistics

__all__ = [
    "CRITERIA",
    "Criterion",
    "Prediction",
    "Rule",
    "SameMeaning",
    "Scores",
    "ScoringSetup",
    "Statistics",
    "iter_statistics",
    "score",
    "score_samples",
]
