"""Owns the evaluation: datasets, saved samples, scores, correctness, metrics and calibrated gates."""

from coe_agents.evaluation.calibration import (
    Drift,
    Judged,
    Recalibration,
    RiskMonitor,
    RiskState,
    Seen,
    calibrate,
    check_drift,
    judge_samples,
    recalibrate,
    weighted_risk_bound,
)
from coe_agents.evaluation.report import report
from coe_agents.evaluation.samples import Sample, SampledQuestion, Samples
from coe_agents.evaluation.scoring import Scores, ScoringSetup, score
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, Prediction, Rule, SameMeaning
from coe_agents.evaluation.scoring.statistics import Statistics, iter_statistics

__all__ = [
    "CRITERIA",
    "Criterion",
    "Drift",
    "Judged",
    "Prediction",
    "Recalibration",
    "RiskMonitor",
    "RiskState",
    "Rule",
    "SameMeaning",
    "Sample",
    "SampledQuestion",
    "Samples",
    "Scores",
    "ScoringSetup",
    "Seen",
    "Statistics",
    "calibrate",
    "check_drift",
    "iter_statistics",
    "judge_samples",
    "recalibrate",
    "report",
    "score",
    "weighted_risk_bound",
]
