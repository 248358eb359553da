"""Owns the evaluation: datasets, saved samples, scores, correctness, metrics and calibrated gates."""

from coe_agents.evaluation.calibration.audits import Recalibration, Seen, recalibrate, weighted_risk_bound
from coe_agents.evaluation.calibration.calibrate import Judged, calibrate, judge_samples
from coe_agents.evaluation.calibration.drift import Drift, check_drift
from coe_agents.evaluation.calibration.monitor import RiskMonitor, RiskState
from coe_agents.evaluation.report import report
from coe_agents.evaluation.samples import Sample, SampledQuestion, Samples
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, Prediction, Rule, SameMeaning
from coe_agents.evaluation.scoring.scored_question import ScoringSetup
from coe_agents.evaluation.scoring.scores import Scores, score
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
