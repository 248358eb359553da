"""Owns the loading of parts by name: "package.module:name", from code, a command's option or a configuration.

A data file names no code: what stands in samples, saved policies or records is never imported.
"""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from coe_agents.errors import ConfigurationError

NO_ENTRY_POINTS = 'A name that an installed package registered is written as the "package.module:name" it stood for'
"""What to do with a name that was an entry point, which are no longer looked up."""
_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_reference(name: str) -> bool:
    """Returns whether a name has the form "package.module:name"."""
    return _REFERENCE.fullmatch(name) is not None


def load_extension(part: str, name: str, *, folder: Path | None = None) -> Any:
    """Imports the module of "package.module:name", which runs its code, and returns the object.

    `part` says in errors what it is. Python looks for the module in `folder` last; it stays on `sys.path`, for imports
    that come later.
    """
    module_name, _, attribute = name.partition(":")
    failure = f'{part} "{name}" cannot be imported: '
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script may exit
        described = " ".join(f"{type(error).__name__}: {error}".split())
        hint = "Install the package that has it, or correct the name"
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == module_name
        if folder is not None and is_missing:
            file = f"put {module_name}.py into {folder.resolve()}"
            hint = f"Install the package that has it, {file}, or correct the name"
        raise ConfigurationError(failure + described, hint=hint) from error
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        public = [each for each in dir(module) if not each.startswith("_")]
        raise ConfigurationError(
            f'{failure}"{module_name}" has no "{attribute}"',
            hint=did_you_mean(attribute, public) or f'Correct the name after ":" in "{name}"',
        ) from error


def origin_of(name: str) -> str:
    """Returns the file of "package.module:name" once it is imported; "" before."""
    return getattr(sys.modules.get(name.partition(":")[0]), "__file__", None) or ""


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
