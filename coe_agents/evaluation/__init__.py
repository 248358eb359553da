"""Owns the evaluation: datasets, samples that are kept, scores, correctness, metrics, and calibrated gates."""

from coe_agents.evaluation.calibration import Judged, calibrate, judged
from coe_agents.evaluation.drift import Drift, check_drift
from coe_agents.evaluation.report import report
from coe_agents.evaluation.samples import Sample, SampledQuestion, Samples
from coe_agents.evaluation.scoring import Scores, score
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, Prediction, Rule, SameMeaning
from coe_agents.evaluation.scoring.statistics import Statistics, measured

__all__ = [
    "CRITERIA",
    "Criterion",
    "Drift",
    "Judged",
    "Prediction",
    "Rule",
    "SameMeaning",
    "Sample",
    "SampledQuestion",
    "Samples",
    "Scores",
    "Statistics",
    "calibrate",
    "check_drift",
    "judged",
    "measured",
    "report",
    "score",
]
