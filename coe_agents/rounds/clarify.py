"""Owns `Clarify`: the user, not the agents, is asked what the question means."""

from dataclasses import dataclass
from typing import ClassVar

from coe_agents.rounds.strategy import RoundContext, RoundPlan


@dataclass(frozen=True, slots=True)
class Clarify:
    """Asks the user to clarify the question; the next round starts afresh with the question and the reply.

    The run stops at an `interrupt` that shows a `coe_agents.graph.PersonRequest`; the reply is text. So the graph needs
    a checkpointer; without one a run is refused before any agent is asked. The new responses replace the former ones.
    `create_coe_graph` gives this strategy a node of its own where `strategies` holds it, or with `clarify=True`, which
    lets a policy name it for any round.
    """

    name: ClassVar[str] = "clarify"

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Raises ValueError: a policy named this strategy in a graph that was built without it."""
        raise ValueError(
            'the strategy "clarify" must be allowed when the graph is built; got it from the policy alone. '
            "Build it with create_coe_graph(..., clarify=True)"
        )
