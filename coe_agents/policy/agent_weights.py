"""Owns the file of agents' weights: `drift --follow` writes it where an agent has grown worse, and a graph reads it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from coe_agents._files import write
from coe_agents.checks import brief, is_finite
from coe_agents.policy.saved import load_saved, with_tuples

_FORMAT = "coe-agents agent weights 1"


@dataclass(frozen=True, slots=True)
class LostWeight:
    """Why and when an agent lost weight.

    Attributes:
        agent: Its name.
        date: When it was found, in ISO 8601.
        weight_before: Its weight until then.
        weight: Its weight since.
        risk: The share of wrong answers that its calibration allows.
        risk_since: The estimated share since the change.
        n_since: How many labelled answers it gave since.
        since: The id of the case near which the change began, and its time where known.
        found_at: The same of the case at which the evidence was sufficient.
        evidence: The evidence then, at least `limit`.
        limit: The evidence that is sufficient: 1 / the probability of a false report of this agent.
    """

    agent: str
    date: str
    weight_before: float
    weight: float
    risk: float
    risk_since: float
    n_since: int
    since: tuple[str | None, str | None]
    found_at: tuple[str | None, str | None]
    evidence: float
    limit: float


@dataclass(frozen=True, slots=True)
class AgentWeights:
    """The weights of agents by name, and why they are what they are.

    Attributes:
        weights: At least 0 and finite, one of them above 0.
        lost: The evidence of each agent that lost weight.

    Raises:
        ValueError: If a weight is out of its range, or none is above 0.
    """

    weights: Mapping[str, float]
    lost: tuple[LostWeight, ...] = ()

    def __post_init__(self) -> None:
        check_weights(self.weights)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"coe-agents drift POLICY SAMPLES --follow CASES --weights FILE" writes one'
        return load_saved(path, cls._from_json, what="weights file", formats=(_FORMAT,), hint=hint)

    @classmethod
    def _from_json(cls, record: dict[str, Any]) -> Self:
        return cls(record["weights"], tuple(LostWeight(**with_tuples(each)) for each in record["lost"]))

    def save(self, path: str | Path) -> None:
        """Writes the weights and the evidence as JSON, in one step: a graph may read the file at any time."""
        record = {"format": _FORMAT, "weights": dict(self.weights), "lost": [asdict(each) for each in self.lost]}
        write(Path(path), f"{json.dumps(record, indent=1)}\n".encode())


def check_weights(weights: object) -> None:
    """Raises ValueError unless these are weights of agents by name."""
    wanted = '"weights" must hold a finite number of at least 0 for each agent by name, one of them above 0'
    remedy = "1.0 for each counts all equally"
    if not isinstance(weights, Mapping) or not all(isinstance(agent, str) for agent in weights):
        raise ValueError(f"{wanted}; got {brief(weights)}. {remedy}")
    for agent, weight in weights.items():
        if not is_finite(weight) or weight < 0.0:
            raise ValueError(f"{wanted}; got {weight!r:.80} of {agent!r:.80}. {remedy}")
    if not any(weight > 0.0 for weight in weights.values()):
        raise ValueError(f"{wanted}; got none above 0. {remedy}")
