"""Owns `CalibratedPolicy`: answer up to a threshold that was chosen to keep a stated risk."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from coe_agents.errors import ConfigurationError
from coe_agents.policy.base import Decision, check_action
from coe_agents.policy.gate import LinearGate
from coe_agents.policy.measurement import Measurement
from coe_agents.types import Action

_FORMAT = "coe-agents calibrated policy 1"
_ROUNDING = 1e-9
AgentWeighting = Literal["frequency", "probability", "mixed"]


@dataclass(frozen=True, slots=True)
class CalibratedAgent:
    """How an agent was sampled when the policy was calibrated.

    Attributes:
        min_responses: Its fewest responses to a question.
        max_responses: Its most.
        weighting: How they counted.
    """

    min_responses: int
    max_responses: int
    weighting: AgentWeighting

    def __post_init__(self) -> None:
        if not 0 < self.min_responses <= self.max_responses or self.weighting not in get_args(AgentWeighting):
            raise ValueError(
                f'an agent must have 1 <= "min_responses" <= "max_responses" and a weighting; {self} came. '
                "Calibrate anew"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a policy was calibrated on, and what came of it.

    Attributes:
        risk: The highest share of wrong answers among those given that was to be allowed, in (0, 1).
        confidence: The probability, over calibration sets, with which it is kept, in (0, 1).
        threshold: The highest uncertainty that is answered; None if none keeps the risk, so that nothing is answered.
        n_questions: How many questions the threshold was chosen on.
        n_answered: How many of them it answers.
        n_wrong: How many of these answers were wrong.
        bound: The upper confidence bound of the risk at the threshold; None without a threshold.
        agents: The agents, by name.
        clusterer: The name of the clusterer.
        correctness: The name of the criterion of correctness.
        date: When, as ISO 8601 has it.
        uncertainties: The uncertainty of each question, rising; what drift is measured against.
        gate: The learned gate whose probability of a wrong answer is the uncertainty; None: the uncertainty is CoE.
    """

    risk: float
    confidence: float
    threshold: float | None
    n_questions: int
    n_answered: int
    n_wrong: int
    bound: float | None
    agents: Mapping[str, CalibratedAgent]
    clusterer: str
    correctness: str
    date: str
    uncertainties: tuple[float, ...]
    gate: LinearGate | None = None

    def __post_init__(self) -> None:
        for name in ("risk", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(
                    f'"{name}" must be above 0 and below 1; it is {getattr(self, name)!r}. Pass a share such as 0.1'
                )
        if self.threshold is not None and not self.threshold >= 0.0:
            raise ValueError(f'"threshold" must be at least 0 or null; it is {self.threshold!r}. Calibrate anew')

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns what the threshold is compared with, to nine digits so that equal ones tie; higher = less sure.

        Raises:
            KeyError: The learned gate needs an agent that was not measured.
        """
        return round(measurement.coe if self.gate is None else self.gate.uncertainty(measurement), 9)


class CalibratedPolicy:
    """Answers where the uncertainty is at most the calibrated threshold, and does `otherwise` elsewhere.

    The promise: for new questions of the same kind, put to the same agents, sampled and clustered alike, the share of
    wrong answers among those given is at most `calibration.risk`, unless the calibration questions were unlucky, which
    happens with a probability of at most 1 - `calibration.confidence`. A group that differs from the calibrated one
    voids it: then each decision warns. Where no threshold keeps the risk, nothing is answered.

    Args:
        calibration: From `coe_agents.evaluation.calibrate`, or `load`.
        otherwise: "abstain", "escalate" or "another_round".
    """

    def __init__(self, calibration: Calibration, *, otherwise: Action = "abstain") -> None:
        self.calibration = calibration
        self.otherwise = check_action(otherwise, where='"otherwise" of CalibratedPolicy')
        if otherwise == "answer":
            raise ValueError(
                '"otherwise" of CalibratedPolicy must be another action than "answer"; "answer" came. '
                "To answer more, calibrate at a higher risk"
            )

    @classmethod
    def load(cls, path: str | Path, *, otherwise: Action = "abstain") -> "CalibratedPolicy":
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"coe-agents calibrate SAMPLES... --out FILE" writes one'
        try:
            record = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the policy {path} cannot be read: {error}", hint=hint) from error
        if not isinstance(record, dict) or record.pop("format", None) != _FORMAT:
            raise ConfigurationError(f'{path} is no policy of the format "{_FORMAT}"', hint=hint)
        try:
            calibration = _from_json(record)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ConfigurationError(f"the policy {path} is damaged: {error}", hint=hint) from error
        return cls(calibration, otherwise=otherwise)

    def save(self, path: str | Path) -> None:
        """Writes the calibration as JSON."""
        record = {"format": _FORMAT, **asdict(self.calibration)}
        many = json.dumps(record.pop("uncertainties"), allow_nan=False)  # on one line, the rest to be read
        head = json.dumps(record, indent=1, allow_nan=False).removesuffix("\n}")
        Path(path).write_text(f'{head},\n "uncertainties": {many}\n}}\n', encoding="utf-8")

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer" with the leading cluster's answer, or `otherwise`.

        Warns:
            UserWarning: The agents, or how many responses they gave, differ from the calibration.
        """
        calibration, threshold = self.calibration, self.calibration.threshold
        if mismatches := self.mismatches(measurement):
            warnings.warn(f"the calibrated risk does not hold: {'; '.join(mismatches)}", stacklevel=2)
        promise = f"at most {calibration.risk:g} with confidence {calibration.confidence:g}"
        if threshold is None:
            reason = f"no threshold kept the risk {promise} on {calibration.n_questions} calibration questions"
            return Decision(self.otherwise, None, reason)
        if calibration.gate is not None and (lacking := set(calibration.gate.agents) - set(measurement.agents)):
            reason = f"the learned gate needs all its agents; {', '.join(sorted(lacking))} gave no response"
            return Decision(self.otherwise, None, reason)
        uncertainty = calibration.uncertainty(measurement)
        what = f"CoE {uncertainty:.3f}" if calibration.gate is None else f"gate score {uncertainty:.3f}"
        if uncertainty <= threshold + _ROUNDING:
            reason = f"{what} is at most the calibrated {threshold:g} (risk {promise})"
            return Decision("answer", measurement.answer, reason)
        return Decision(self.otherwise, None, f"{what} exceeds the calibrated {threshold:g} (risk {promise})")

    def mismatches(self, measurement: Measurement) -> list[str]:
        """Returns in what the agents measured differ from those of the calibration, a sentence each."""
        found = [
            f"{name} is {problem}"
            for problem, names in (
                ("missing", self.calibration.agents.keys() - measurement.agents.keys()),
                ("new", measurement.agents.keys() - self.calibration.agents.keys()),
            )
            for name in sorted(names)
        ]
        for name, agent in self.calibration.agents.items():
            if name not in measurement.agents:
                continue
            now = measurement.agents[name]
            if not agent.min_responses <= now.n_responses <= agent.max_responses:
                span = f"{agent.min_responses} to {agent.max_responses}"
                found.append(f"{name} gave {now.n_responses} responses, and {span} when calibrated")
            if agent.weighting not in ("mixed", now.weighting):
                found.append(f"{name}'s responses count by {now.weighting}, and by {agent.weighting} when calibrated")
        return found

    def __repr__(self) -> str:
        kind = "CoE" if self.calibration.gate is None else "learned gate"
        return f"CalibratedPolicy({kind} <= {self.calibration.threshold}, otherwise={self.otherwise!r})"


def _from_json(record: dict[str, Any]) -> Calibration:
    gate, agents = record.pop("gate"), record.pop("agents")
    for name in ("risk", "confidence", "threshold", "bound", "n_questions", "n_answered", "n_wrong"):
        value = record[name]
        if not (isinstance(value, int | float) or (value is None and name in ("threshold", "bound"))):
            raise ValueError(f'"{name}" must be a number; it is {str(value)[:50]!r}. Calibrate anew')
    record["uncertainties"] = tuple(float(value) for value in record["uncertainties"])
    return Calibration(
        **record,
        agents={name: CalibratedAgent(**agent) for name, agent in agents.items()},
        gate=None
        if gate is None
        else LinearGate(
            agents=tuple(gate["agents"]),
            means=tuple(gate["means"]),
            scales=tuple(gate["scales"]),
            coefficients=tuple(gate["coefficients"]),
            intercept=float(gate["intercept"]),
        ),
    )
