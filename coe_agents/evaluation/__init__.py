"""Owns the evaluation: datasets, saved samples, scores, correctness, metrics and calibrated gates."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples
from coe_agents.evaluation.calibration.drift import RiskMonitor, check_drift
from coe_agents.evaluation.samples.reader import Samples
from coe_agents.evaluation.scoring.scores import report, score

__all__ = ["RiskMonitor", "Samples", "calibrate", "check_drift", "judge_samples", "report", "score"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
