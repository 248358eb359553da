"""Owns `Widen`: agents that were not asked before join the group."""

from dataclasses import dataclass
from typing import ClassVar

from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes


@dataclass(frozen=True, slots=True)
class Widen:
    """Asks the agents of the next round that have not answered yet; the former responses still count.

    It is the round of a `CascadePolicy`. Where no agent is new, all are asked again, as `Resample` does.
    """

    name: ClassVar[str] = "widen"

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan."""
        agents = context.agents or tuple(context.n_responses)
        new = [name for name in agents if name not in context.measurement.agents]
        return RoundPlan({name: Wishes() for name in new or agents})
