"""Owns calibration: thresholds that keep a stated risk, learned gates, and the checks whether they still fit."""

from coe_agents.evaluation.calibration.audits import Recalibration, Seen, recalibrate, weighted_risk_bound
from coe_agents.evaluation.calibration.calibrate import Judged, calibrate, judge_samples
from coe_agents.evaluation.calibration.drift import Drift, check_drift
from coe_agents.evaluation.calibration.learned import fit_gate, fit_support, fit_trust
from coe_agents.evaluation.calibration.monitor import RiskMonitor, RiskState
from coe_agents.evaluation.calibration.threshold import ThresholdChoice, choose_threshold, risk_bound

__all__ = [
    "Drift",
    "Judged",
    "Recalibration",
    "RiskMonitor",
    "RiskState",
    "Seen",
    "ThresholdChoice",
    "calibrate",
    "check_drift",
    "choose_threshold",
    "fit_gate",
    "fit_support",
    "fit_trust",
    "judge_samples",
    "recalibrate",
    "risk_bound",
    "weighted_risk_bound",
]
