"""Owns further rounds: how each is asked, depending on the kind of uncertainty, and what it changed."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.rounds.strategies import Debate, Resample
from coe_agents.rounds.strategy import RoundContext, RoundPlan

__all__ = ["Debate", "Resample", "RoundContext", "RoundPlan"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
