"""Owns the reading of what policies save, an object that names its format, and the file of agents' weights."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from coe_agents._removed import refuses_removed
from coe_agents.checks import brief, number
from coe_agents.errors import ConfigurationError
from coe_agents.files import parse_json, parse_toml, with_unique_names, write

_T = TypeVar("_T")
_FORMAT = "coe-agents agent weights 1"


@refuses_removed
@dataclass(frozen=True, slots=True)
class AgentWeights:
    """The weights of agents by name.

    Attributes:
        weights: At least 0 and finite, one of them above 0.

    Raises:
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
        return load_saved(
            path,
            lambda record: cls(record["weights"]),
            what="weights file",
            form=_FORMAT,
            hint=hint,
        )

    def save(self, path: str | Path) -> None:
        """Writes the weights, as TOML if the name ends in ".toml", else as JSON.

        It is done in one step: a graph may read the file at any time.
        """
        record = {"format": _FORMAT, "weights": dict(self.weights)}
        text = json.dumps(record, indent=1)
        if Path(path).suffix == ".toml":
            lines = [f'format = "{_FORMAT}"', "", "[weights]"]
            for name, weight in self.weights.items():
                # a string of JSON is one of TOML, but for the character DEL
                key = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
                lines.append(f"{key} = {float(weight)!r}")
            text = "\n".join(lines)
        write(Path(path), f"{text}\n".encode())


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


def load_saved(
    path: str | Path, build: Callable[[dict[str, Any]], _T], *, what: str, form: str, hint: str
) -> _T:
    """Returns what `build` makes of a saved object: JSON, or TOML where the file's name ends in ".toml"."""
    try:
        content = Path(path).read_bytes()
        record: Any
        if Path(path).suffix == ".toml":
            record = parse_toml(content.decode())
        else:
            record = parse_json(content, object_pairs_hook=with_unique_names)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the {what} {path} cannot be read: {error}", hint=hint) from error
    if not isinstance(record, dict) or record.get("format") != form:
        raise ConfigurationError(f'{path} is not a {what} of the format "{form}"', hint=hint)
    try:
        return build(record)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ConfigurationError(f"the {what} {path} is damaged: {error}", hint=hint) from error


def with_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a frozen dataclass that was saved: JSON has lists in place of its tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
