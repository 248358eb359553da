"""Owns the roles of a chat model: an agent that is sampled, a judge, an arbiter, or a source of probabilities."""

from coe_agents.agents.choice.probability import ChoiceProbabilities
from coe_agents.agents.judge import Arbiter, ChatEntailment, ChatJudge
from coe_agents.agents.model_agent import ModelAgent

__all__ = ["Arbiter", "ChatEntailment", "ChatJudge", "ChoiceProbabilities", "ModelAgent"]
