"""Owns reading what policies save: one JSON object, which names its format."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from coe_agents.errors import ConfigurationError
from coe_agents.files import parse_json, with_unique_names

_T = TypeVar("_T")


def load_saved(path: str | Path, build: Callable[[dict[str, Any]], _T], *, what: str, form: str, hint: str) -> _T:
    """Returns what `build` makes of a saved object.

    Args:
        path: Its file.
        build: Takes the object, in which "format" is `form`; it may raise what a wrong value leads to.
        what: What is saved there, for messages.
        form: The name of the format.
        hint: How to get such a file.

    Raises:
        ConfigurationError: The file cannot be read, or holds something else.
    """
    try:
        record = parse_json(Path(path).read_bytes(), object_pairs_hook=with_unique_names)
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
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
