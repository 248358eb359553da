"""Owns the roles of a chat model: an agent that is sampled, a judge, an arbiter, or a source of probabilities."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.agents.judge import Arbiter, ChatEntailment
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.agents.requests.chat_models import load_model

__all__ = ["Arbiter", "ChatEntailment", "ModelAgent", "load_model"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
