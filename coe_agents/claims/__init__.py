"""Owns long answers, claim by claim: which claims a text makes, who supports each, and which of them are given."""

from coe_agents.claims.draft import Claims
from coe_agents.claims.policy import ClaimPolicy
from coe_agents.claims.splitting import ChatClaims, Sentences
from coe_agents.claims.support import Overlap

__all__ = ["ChatClaims", "ClaimPolicy", "Claims", "Overlap", "Sentences"]
