"""Owns `Resample`: the same question again, and more responses to it."""

import math
from dataclasses import dataclass
from typing import ClassVar

from coe_agents.checks import integer, number
from coe_agents.policy.bounds import MOST_SAMPLES
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes


@dataclass(frozen=True, slots=True)
class Resample:
    """Asks the same question again; the new responses join the former ones.

    It makes the measurement more accurate, since few responses underestimate CoE; it does not change the agents.

    Attributes:
        growth: The factor on the number of responses of the last round, for each agent, rounded up; at least 1.
        most: The most responses an agent is asked for in a round, at most 500.

    Raises:
        ValueError: If an option is out of range.

    Example:
        >>> Resample(growth=1.5).n_samples(5)
        8
    """

    name: ClassVar[str] = "resample"
    growth: float = 2.0
    most: int = MOST_SAMPLES

    def __post_init__(self) -> None:
        number(self.growth, '"growth" of Resample', least=1, advice="2.0 doubles the responses each round")
        integer(self.most, '"most" of Resample', least=1, most=MOST_SAMPLES, advice=f"Omit it for {MOST_SAMPLES}")

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan; an agent that failed in the last round is asked for its own number."""
        return RoundPlan(
            {
                agent: Wishes(n_samples=self.n_samples(n_former)) if n_former else Wishes()
                for agent, n_former in context.n_responses.items()
            }
        )

    def n_samples(self, n_former: int) -> int:
        """Returns the number of responses to ask for after `n_former`."""
        return min(math.ceil(n_former * self.growth), self.most)
