"""Owns the model libraries: one file per third-party dependency, imported when first asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coe_agents.backends.chat_transformers import ChatTransformers
    from coe_agents.backends.entailment_transformers import TransformersEntailment

__all__ = ["ChatTransformers", "TransformersEntailment"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "ChatTransformers":
            from coe_agents.backends.chat_transformers import ChatTransformers

            return ChatTransformers
        from coe_agents.backends.entailment_transformers import TransformersEntailment

        return TransformersEntailment
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs the package {error.name!r}; install it with: pip install 'coe-agents[local]'"
        ) from error
