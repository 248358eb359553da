"""Owns samples on disk: saved responses are read by question, and a run's samples are kept as they arrive."""

from coe_agents.evaluation.samples.line import Sample
from coe_agents.evaluation.samples.question import SampledQuestion
from coe_agents.evaluation.samples.reader import Samples, SamplesPart

__all__ = ["Sample", "SampledQuestion", "Samples", "SamplesPart"]
