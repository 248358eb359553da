"""Owns `CascadePolicy`: cheap agents first, and dear ones only where these leave doubt."""

from collections.abc import Sequence

from coe_agents.policy.base import Decision, check_otherwise, check_threshold
from coe_agents.policy.measurement import Measurement
from coe_agents.policy.wording import coe_in_words
from coe_agents.types import Action

WIDEN = "widen"
"""The strategy of `coe_agents.rounds.Widen`."""


class CascadePolicy:
    """Asks agents in stages, and answers at the first stage at which CoE is at most that stage's threshold.

    The graph asks only the agents of the first stage in the first round. Each further round adds those of the next
    stage; what was said before still counts. A tie, or a refusal that leads, goes on to the next stage. A majority of
    the agents asked so far must answer; the failure of a whole stage ends the run without an answer.

    Args:
        stages: The names of the agents of each stage; each agent of the graph in one of them.
        thresholds: In nats, one for each stage, compared with `comparable_coe`. Calibrate them together:
            `coe_agents.experiments.calibrate_cascade`.
        otherwise: The action after the last stage: "abstain" or "escalate".

    Raises:
        ValueError: If a stage is empty, an agent is in two stages, or a threshold is missing or negative.

    Example:
        >>> CascadePolicy([["small"], ["large", "larger"]], [0.1, 0.5]).stages
        (('small',), ('large', 'larger'))
    """

    def __init__(
        self, stages: Sequence[Sequence[str]], thresholds: Sequence[float], *, otherwise: Action = "abstain"
    ) -> None:
        if isinstance(stages, str) or any(isinstance(stage, str) or not stage for stage in stages) or not stages:
            raise ValueError(
                f'"stages" of CascadePolicy must be lists of at least one name each; got {stages!r}. '
                'Write [["small"], ["large"]]'
            )
        names = [name for stage in stages for name in stage]
        if len(set(names)) < len(names):
            raise ValueError(
                f'"stages" of CascadePolicy must name each agent once; got {stages!r}. Name it where first'
            )
        if len(thresholds) != len(stages):
            raise ValueError(
                f'"thresholds" of CascadePolicy must be one for each of {len(stages)} stages; got {len(thresholds)}. '
                "Add or remove one"
            )
        self.stages = tuple(tuple(stage) for stage in stages)
        self.cascade_thresholds = tuple(
            check_threshold(value, where='a value of "thresholds" of CascadePolicy') for value in thresholds
        )
        self.otherwise = check_otherwise(otherwise, policy="CascadePolicy", instead="Raise the last threshold")
        if self.otherwise == "another_round":
            raise ValueError(
                '"otherwise" of CascadePolicy must be "abstain" or "escalate"; got "another_round". Add a stage'
            )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer", "another_round" with the next stage, or `otherwise` after the last one."""
        stage = min(round, len(self.stages) - 1)
        threshold = self.cascade_thresholds[stage]
        unit = " nats" if measurement.divergence == "kl" else ""
        where = f"stage {stage + 1} of {len(self.stages)}"
        if measurement.comparable_coe > threshold:
            reason = f"{coe_in_words(measurement, with_parts=True)} exceeds {threshold:g}{unit} of {where}"
        elif measurement.tied:
            reason = f"{len(measurement.tied)} answers share the lead at {where}, and a tie is never answered"
        elif measurement.answer_kind in ("refusal", "empty"):
            reason = f"no answer leads at {where}"
        else:
            reason = f"{coe_in_words(measurement)} is at most {threshold:g}{unit} of {where}"
            return Decision("answer", measurement.answer, reason)
        if stage + 1 < len(self.stages):
            return Decision("another_round", None, reason, strategy=WIDEN)
        return Decision(self.otherwise, None, reason)

    def __repr__(self) -> str:
        stages, thresholds = [list(stage) for stage in self.stages], list(self.cascade_thresholds)
        return f"CascadePolicy({stages!r}, {thresholds!r}, otherwise={self.otherwise!r})"
