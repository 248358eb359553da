"""Owns what uncertainty leads to: a `Measurement` goes in, a `Decision` comes out."""

from coe_agents.policy.base import Decision, Policy
from coe_agents.policy.calibrated import CalibratedPolicy, Calibration
from coe_agents.policy.measurement import AgentMeasurement, Measurement, measure
from coe_agents.policy.regime import RegimePolicy
from coe_agents.policy.threshold import ThresholdPolicy
from coe_agents.policy.weighing import Weighting

__all__ = [
    "AgentMeasurement",
    "CalibratedPolicy",
    "Calibration",
    "Decision",
    "Measurement",
    "Policy",
    "RegimePolicy",
    "ThresholdPolicy",
    "Weighting",
    "measure",
]
