"""Owns questions with known answers: reading them, and choosing some by a seed."""

from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.sources import open_questions

__all__ = ["Question", "open_questions"]
