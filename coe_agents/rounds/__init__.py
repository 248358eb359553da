"""Owns further rounds: how each is asked, depending on the kind of uncertainty, and what it changed."""

from coe_agents.rounds.adaptive import AdaptiveSampling
from coe_agents.rounds.strategies import Clarify, Debate, Resample
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Strategy

__all__ = ["AdaptiveSampling", "Clarify", "Debate", "Resample", "RoundContext", "RoundPlan", "Strategy"]
