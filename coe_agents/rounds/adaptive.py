"""Owns `AdaptiveSampling`: few responses first, and more only while they could change the decision."""

from dataclasses import dataclass

from coe_agents.rounds.strategy import MOST_SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSampling:
    """Draws each round's responses little by little, until the decision is settled or all are there.

    Whether it is settled the policy says, by `is_settled` (`coe_agents.policy.Policy`), of a forecast of what the
    responses that are left will make of the measurement (`coe_agents.uncertainty.coe_forecast`). A policy without that
    method is never settled, and all are drawn at once: so a `CalibratedPolicy`, whose promise holds for as many
    responses as it was calibrated on.

    Drawing more belongs to the same round: it is no round of `max_rounds`, and a strategy sees all of the round's
    responses together. Each time the prompt is sent, and paid, again; where prompts are long and responses short, that
    may cost more than it saves, unless the server keeps a cache of prompts.

    Attributes:
        start: How many responses each agent gives first.
        step: How many it gives each further time.
        max_samples: How many it gives at most in a round; by default its own `n_samples`. An agent without `n_samples`
            gives all of its responses at once then. Where a round wishes for a number, that number is the most.
        confidence: Of the forecast, in (0, 1). Higher saves less, and less often decides otherwise.

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
            if value is not None and not 1 <= value <= MOST_SAMPLES:
                raise ValueError(
                    f'"{name}" of AdaptiveSampling must lie in 1..{MOST_SAMPLES}; {value!r} came. '
                    "Leave it out for the default"
                )
        if not 0 < self.confidence < 1:
            raise ValueError(
                f'"confidence" of AdaptiveSampling must be above 0 and below 1; {self.confidence!r} came. '
                "Leave it out for the default"
            )

    def n_samples(self, n_given: int, *, left: int) -> int:
        """Returns how many responses an agent that gave `n_given` in this round is asked for, of those left."""
        return min(self.step if n_given else self.start, left)
