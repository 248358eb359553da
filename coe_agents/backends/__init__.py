"""Owns the model libraries: one file per third-party dependency, imported when first asked for."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coe_agents.backends.chat_transformers import ChatTransformers
    from coe_agents.backends.entailment_transformers import TransformersEntailment

_MODULES = {
    "ChatTransformers": "chat_transformers",
    "TransformersEntailment": "entailment_transformers",
}
__all__ = ["ChatTransformers", "TransformersEntailment"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs the package {error.name!r}; install it with: pip install 'coe-agents[local]'"
        ) from error
