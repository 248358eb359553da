"""Owns the policies: from a `Measurement` of uncertainty to a `Decision`."""

from coe_agents.policy.agent_weights import AgentWeights
from coe_agents.policy.base import Decision, Policy, SettlingPolicy, Tunable
from coe_agents.policy.bounds import Bounds, Spent
from coe_agents.policy.calibrated import CalibratedPolicy, Calibration
from coe_agents.policy.forecast import forecast
from coe_agents.policy.measurement import AgentMeasurement, Measurement, measure
from coe_agents.policy.regime import RegimePolicy
from coe_agents.policy.settle import Rules, settle
from coe_agents.policy.support import SupportPolicy
from coe_agents.policy.threshold import ThresholdPolicy
from coe_agents.policy.weighting import Weighting

__all__ = [
    "AgentMeasurement",
    "AgentWeights",
    "Bounds",
    "CalibratedPolicy",
    "Calibration",
    "Decision",
    "Measurement",
    "Policy",
    "RegimePolicy",
    "Rules",
    "SettlingPolicy",
    "Spent",
    "SupportPolicy",
    "ThresholdPolicy",
    "Tunable",
    "Weighting",
    "forecast",
    "measure",
    "settle",
]
