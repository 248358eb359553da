"""Owns `ThresholdPolicy`: answers while CoE is low."""

from coe_agents.policy.base import Decision, Tunable, check_otherwise, check_threshold, without_tie
from coe_agents.policy.measurement import Measurement
from coe_agents.policy.wording import coe_in_words
from coe_agents.types import Action


class ThresholdPolicy(Tunable):
    """Answers if CoE is at most `max_coe`; if it is higher, or several answers tie, the action is `otherwise`.

    Args:
        max_coe: The threshold in nats, compared with `comparable_coe` of the measurement: under a divergence other than
            "kl" the epistemic part is rescaled first. With 0, all responses of all agents must be in one cluster. With
            uniform weights CoE is at most log(n_clusters), so the log of the number of responses answers everything
            except ties.
        otherwise: "abstain", "escalate" or "another_round".

    Example:
        >>> ThresholdPolicy(0.5, otherwise="escalate")
        ThresholdPolicy(0.5, otherwise='escalate')
    """

    thresholds = ("max_coe",)

    def __init__(self, max_coe: float, *, otherwise: Action = "abstain") -> None:
        self.max_coe = check_threshold(max_coe, where='"max_coe" of ThresholdPolicy')
        self.otherwise = check_otherwise(
            otherwise, policy="ThresholdPolicy", instead='To answer always, raise "max_coe"'
        )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer" with the leading cluster's answer, or `otherwise`, also where several share the lead."""
        limit = f"{self.max_coe:g}{' nats' if measurement.divergence == 'kl' else ''}"
        if measurement.comparable_coe <= self.max_coe:
            answered = Decision("answer", measurement.answer, f"{coe_in_words(measurement)} is at most {limit}")
            return without_tie(answered, measurement, self)
        return Decision(self.otherwise, None, f"{coe_in_words(measurement, with_parts=True)} exceeds {limit}")

    def is_settled(self, measurement: Measurement) -> bool:
        """Returns whether CoE is expected to stay on its side of the threshold, and below it the leading answer."""
        if measurement.forecast is None:
            return False
        low, high = measurement.forecast.total
        return low > self.max_coe or (high <= self.max_coe and measurement.forecast.keeps_lead and not measurement.tied)

    def __repr__(self) -> str:
        return f"ThresholdPolicy({self.max_coe!r}, otherwise={self.otherwise!r})"
