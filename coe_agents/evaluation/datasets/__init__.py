"""Owns questions with known answers: reading them, and choosing some by a seed."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.evaluation.datasets.question import Question

__all__ = ["Question"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
