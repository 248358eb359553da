"""Owns further rounds: how each is asked, depending on the kind of uncertainty, and what it changed."""

from coe_agents.rounds.adaptive import AdaptiveSampling
from coe_agents.rounds.strategies import CLARIFY, Clarify, Debate, Diversify, Resample, Strategies
from coe_agents.rounds.strategy import (
    RequestOverrides,
    RoundContext,
    RoundPlan,
    Strategy,
    check_plan,
    rephrase,
)
from coe_agents.rounds.trajectory import conformity, former_answers, round_data

__all__ = [
    "CLARIFY",
    "AdaptiveSampling",
    "Clarify",
    "Debate",
    "Diversify",
    "RequestOverrides",
    "Resample",
    "RoundContext",
    "RoundPlan",
    "Strategies",
    "Strategy",
    "check_plan",
    "conformity",
    "former_answers",
    "rephrase",
    "round_data",
]
