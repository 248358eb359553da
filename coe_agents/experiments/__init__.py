"""Owns the experiments of the paper and those beyond it: each a pure function from samples to an `Experiment`."""

from coe_agents.experiments.contamination import contamination
from coe_agents.experiments.coordination import divergences, epsilon
from coe_agents.experiments.cost import cost
from coe_agents.experiments.experiment import Experiment
from coe_agents.experiments.model_accuracy import model_accuracy
from coe_agents.experiments.normalisation import normalisation
from coe_agents.experiments.output import write_to
from coe_agents.experiments.ranking import panels, selective_prediction
from coe_agents.experiments.sampling import sampling
from coe_agents.experiments.scaling import scaling

__all__ = [
    "Experiment",
    "contamination",
    "cost",
    "divergences",
    "epsilon",
    "model_accuracy",
    "normalisation",
    "panels",
    "sampling",
    "scaling",
    "selective_prediction",
    "write_to",
]
