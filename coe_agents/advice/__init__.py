"""Owns advice on a group from its own labelled samples: score, weights, agents, samples, coverage, escalation."""

from typing import TYPE_CHECKING

from coe_agents._first_use import on_first_use

if TYPE_CHECKING:
    from coe_agents.advice.advice import advise
else:
    __getattr__, __dir__ = on_first_use(__name__, {"advice": ("advise",)})

__all__ = ["advise"]
