"""Owns the file of agents' weights, which a graph and a calibration read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from coe_agents._files import write
from coe_agents.checks import brief, number
from coe_agents.policy.saved import load_saved

_FORMAT = "coe-agents agent weights 1"


@dataclass(frozen=True, slots=True)
class AgentWeights:
    """The weights of agents by name.

    Attributes:
        weights: At least 0 and finite, one of them above 0.

    Raises:
        TypeError: If a weight is no number.
        ValueError: If a weight is out of its range, or none is above 0.
    """

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        check_weights(self.weights)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: The file cannot be read, or holds something else.
        """
        hint = '"AgentWeights.save" writes one'
        return load_saved(path, cls._from_json, what="weights file", form=_FORMAT, hint=hint)

    @classmethod
    def _from_json(cls, record: dict[str, Any]) -> Self:
        return cls(record["weights"])

    def save(self, path: str | Path) -> None:
        """Writes the weights as JSON, in one step: a graph may read the file at any time."""
        record = {"format": _FORMAT, "weights": dict(self.weights)}
        write(Path(path), f"{json.dumps(record, indent=1)}\n".encode())


def check_weights(weights: object) -> None:
    """Raises TypeError or ValueError unless these are weights of agents by name."""
    wanted = '"weights" must hold a finite number of at least 0 for each agent by name, one of them above 0'
    remedy = "1.0 for each counts all equally"
    if not isinstance(weights, Mapping) or not all(isinstance(agent, str) for agent in weights):
        raise ValueError(f"{wanted}; got {brief(weights)}. {remedy}")
    for agent, weight in weights.items():
        number(weight, f'"weights" of {agent!r:.80}', least=0, advice=remedy)
    if not any(weight > 0.0 for weight in weights.values()):
        raise ValueError(f"{wanted}; got none above 0. {remedy}")
