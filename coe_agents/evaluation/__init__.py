"""Owns the evaluation: datasets, saved samples, scores, correctness, metrics and calibrated gates."""

from typing import TYPE_CHECKING

from coe_agents import _ring
from coe_agents._removed import missing_name
from coe_agents.evaluation.calibration.drift import RiskMonitor, check_drift
from coe_agents.evaluation.samples.reader import Samples

__all__ = ["RiskMonitor", "Samples", "check_drift"]

_FROM_ABOVE = {"calibrate": "experiments.calibrating:calibrate", "report": "pages:report"}
"""What stands above this package, and is found here, too."""

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        if name in _FROM_ABOVE:
            return _ring.load(_FROM_ABOVE[name])
        raise missing_name(__name__, name)
