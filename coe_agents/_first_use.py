"""Owns names that a package imports on first use, so that importing it stays light."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from coe_agents._removed import missing_name


def on_first_use(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package that imports `names`, by module, when they are first used."""
    modules = {name: module for module, of_module in names.items() for name in of_module}

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise missing_name(package, name)
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getattribute, list_names
