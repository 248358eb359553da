"""Owns samples on disk: saved responses are read by question, and a run's samples are kept as they arrive."""

from coe_agents.evaluation.samples.line import Sample
from coe_agents.evaluation.samples.reader import SampledQuestion, Samples

__all__ = ["Sample", "SampledQuestion", "Samples"]
