"""Owns the loading of parts by name: entry points of installed packages, and "package.module:name"."""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from coe_agents.errors import ConfigurationError

GROUPS = {
    "clusterer": "coe_agents.clusterers",
    "policy": "coe_agents.policies",
    "estimator": "coe_agents.estimators",
    "solver": "coe_agents.solvers",
}
"""The group of entry points of each part."""

_PARTS = {group: part for part, group in GROUPS.items()}
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def find_registered(part: str) -> list[EntryPoint]:
    """Returns the entry points that installed packages register for a part, by name."""
    return sorted(entry_points(group=GROUPS[part]), key=lambda entry: entry.name)


def find_extension(part: str, name: str) -> EntryPoint | None:
    """Returns the entry point that `name`, its own or "package.module:name", refers to; it is not imported."""
    if _REFERENCE.fullmatch(name):
        return EntryPoint(name, name, GROUPS[part])
    return next((entry for entry in find_registered(part) if entry.name == name), None)


def load_extension(entry: EntryPoint, *, folder: Path | None = None) -> Any:
    """Imports the module of an extension, which runs its code, and returns the object.

    Python looks for "package.module:name" in `folder` last; it stays on `sys.path`, for imports that come later.
    """
    origin = "" if entry.name == entry.value else f" ({entry.value})"
    failure = f'{_PARTS[entry.group]} "{entry.name}"{origin} cannot be imported: '
    if folder is not None and entry.name == entry.value and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))
    try:
        module = import_module(entry.module)
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script may exit
        described = " ".join(f"{type(error).__name__}: {error}".split())
        hint = "Install the package that has it, or correct the name"
        if folder is not None and isinstance(error, ModuleNotFoundError) and error.name == entry.module:
            file = f"put {entry.module}.py into {folder.resolve()}"
            hint = f"Install the package that has it, {file}, or correct the name"
        raise ConfigurationError(failure + described, hint=hint) from error
    try:
        return reduce(getattr, entry.attr.split("."), module)
    except AttributeError as error:
        public = [name for name in dir(module) if not name.startswith("_")]
        raise ConfigurationError(
            f'{failure}"{entry.module}" has no "{entry.attr}"',
            hint=did_you_mean(entry.attr, public) or f'Correct the name after ":" in "{entry.value}"',
        ) from error


def origin_of(entry: EntryPoint) -> str:
    """Returns where an extension comes from: its file once it is imported, and the package that registers it."""
    file = getattr(sys.modules.get(entry.module), "__file__", None)
    package = f"package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    value = "" if entry.name == entry.value else entry.value
    return ", ".join(part for part in (value, file, package) if part)


_LONGEST_NAME = 200
"""Characters; a name from outside may be of any length, and comparing takes time."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a question about the nearest of some names; "" if none is near.

    Example:
        >>> did_you_mean("opnai", ["anthropic", "openai"]), did_you_mean("x", ["openai"])
        ('Did you mean "openai"?', '')
    """
    near = get_close_matches(name[:_LONGEST_NAME], list(known), n=1)
    return f'Did you mean "{near[0]}"?' if near else ""
