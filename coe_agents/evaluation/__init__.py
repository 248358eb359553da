"""Owns the evaluation: datasets, saved samples, scores, correctness, metrics and calibrated gates."""

from coe_agents.evaluation.advice import advise
from coe_agents.evaluation.calibration.audits import recalibrate
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples
from coe_agents.evaluation.calibration.drift import RiskMonitor, check_drift
from coe_agents.evaluation.samples.reader import Samples
from coe_agents.evaluation.scoring.correctness import CRITERIA, Rule
from coe_agents.evaluation.scoring.scores import report, score
from coe_agents.types import SampledQuestion

__all__ = [
    "CRITERIA",
    "RiskMonitor",
    "Rule",
    "SampledQuestion",
    "Samples",
    "advise",
    "calibrate",
    "check_drift",
    "judge_samples",
    "recalibrate",
    "report",
    "score",
]
