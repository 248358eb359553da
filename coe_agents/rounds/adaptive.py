"""Owns `AdaptiveSampling`: few responses first, and more only while they could change the decision."""

from dataclasses import dataclass

from coe_agents.checks import integer, number
from coe_agents.policy.bounds import MOST_SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSampling:
    """Samples each round's responses step by step, until the decision is settled or all are there.

    The policy says whether it is settled (`coe_agents.policy.SettlingPolicy`), from a forecast of the measurement after
    the remaining responses (`coe_agents.uncertainty.coe_forecast`). Under a policy without `is_settled` all responses
    are sampled at once. `CalibratedPolicy` is one: its guarantee holds for the number of responses that it was
    calibrated on.

    The steps belong to one round: they do not count towards `max_rounds`, and a strategy sees all of the round's
    responses together. Each step sends, and pays for, the prompt again; with long prompts and short responses this may
    cost more than it saves, unless the server caches prompts.

    Attributes:
        start: How many responses each agent gives first.
        step: How many it gives in each further step.
        max_samples: The most it gives in a round; by default its own `n_samples`. An agent without `n_samples` then
            gives all of its responses at once. Where a strategy sets a number for the round, that number is the most.
        confidence: Of the forecast, in (0, 1). A higher one saves less, and changes fewer decisions.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> adaptive = AdaptiveSampling(start=4, step=3)
        >>> [adaptive.n_samples(n_given, left=8 - n_given) for n_given in (0, 4, 7)]
        [4, 3, 1]
    """

    start: int = 3
    step: int = 3
    max_samples: int | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("start", "step", "max_samples"):
            value = getattr(self, name)
            if value is not None:
                integer(value, f'"{name}" of AdaptiveSampling', least=1, most=MOST_SAMPLES, advice="3 are usual")
        number(self.confidence, '"confidence" of AdaptiveSampling', above=0, below=1, advice="0.95 is usual")

    def n_samples(self, n_given: int, *, left: int) -> int:
        """Returns how many responses an agent that gave `n_given` in this round is asked for, of those left."""
        return min(self.step if n_given else self.start, left)
