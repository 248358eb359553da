"""Owns the experiments of the paper and those beyond it: each a pure function from samples to an `Experiment`."""

from typing import Any

from coe_agents._deprecated import find_renamed
from coe_agents.experiments.cascade import CalibratedCascade, Stages, calibrate_cascade, measure_stages
from coe_agents.experiments.contamination import contamination
from coe_agents.experiments.coordination import divergences, epsilon
from coe_agents.experiments.cost import cost
from coe_agents.experiments.experiment import Experiment
from coe_agents.experiments.model_accuracy import model_accuracy
from coe_agents.experiments.normalisation import normalisation
from coe_agents.experiments.output import draw_to, to_csv, to_latex
from coe_agents.experiments.quadrants import quadrants
from coe_agents.experiments.ranking import panels, selective_prediction
from coe_agents.experiments.sampling import sampling
from coe_agents.experiments.scaling import scaling
from coe_agents.experiments.stopping import StoppingComparison, compare_stopping

__all__ = [
    "CalibratedCascade",
    "Experiment",
    "Stages",
    "StoppingComparison",
    "calibrate_cascade",
    "compare_stopping",
    "contamination",
    "cost",
    "divergences",
    "draw_to",
    "epsilon",
    "measure_stages",
    "model_accuracy",
    "normalisation",
    "panels",
    "quadrants",
    "sampling",
    "scaling",
    "selective_prediction",
    "to_csv",
    "to_latex",
]


def __getattr__(name: str) -> Any:
    return find_renamed(__name__, name)
