"""Owns the policies: from a `Measurement` of uncertainty to a `Decision`."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.measurement.measurement import Measurement, measure
from coe_agents.policy.base import Decision, Policy
from coe_agents.policy.calibrated import CalibratedPolicy
from coe_agents.policy.fixed_rounds import FixedRounds
from coe_agents.policy.saved import AgentWeights
from coe_agents.policy.settle import settle
from coe_agents.policy.support import SupportPolicy
from coe_agents.policy.thresholds import RegimePolicy, ThresholdPolicy

__all__ = [
    "AgentWeights",
    "CalibratedPolicy",
    "Decision",
    "FixedRounds",
    "Measurement",
    "Policy",
    "RegimePolicy",
    "SupportPolicy",
    "ThresholdPolicy",
    "measure",
    "settle",
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
