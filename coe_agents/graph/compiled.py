"""Owns the check of a compiled graph that will run inside a tool, an agent or a chain."""

from typing import Any

from langchain_core.runnables import Runnable


def check_compiled(graph: object) -> Runnable[Any, Any]:
    """Returns `graph` if it can run inside another one.

    Raises:
        TypeError: If it is not compiled.
        ValueError: If it has a checkpointer of its own, in which one question would see the earlier ones.
    """
    if not isinstance(graph, Runnable):
        raise TypeError(
            f'"graph" must be a compiled graph; got {type(graph).__name__}. Compile it: create_coe_graph(...).compile()'
        )
    if getattr(graph, "checkpointer", None) not in (None, False):
        raise ValueError(
            '"graph" must have no checkpointer of its own; it was compiled with one. '
            "Omit it: inside an agent the graph uses the agent's"
        )
    return graph
