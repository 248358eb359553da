"""Owns names that a package imports on first use, so that importing it stays light."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_first_use(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package, which imports each of the `names`, by module, when it is first used."""
    modules = {name: module for module, of_module in names.items() for name in of_module}

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return getattribute
