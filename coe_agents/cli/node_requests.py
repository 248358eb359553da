"""Owns the count of requests that no agent sends: those of judges and of an arbiter."""

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler


class NodeRequests(BaseCallbackHandler):
    """Keeps the graph's node of each request to a chat model."""

    run_inline = True

    def __init__(self) -> None:
        self._nodes: list[str | None] = []

    def on_chat_model_start(self, *_: Any, metadata: Mapping[str, Any] | None = None, **__: Any) -> None:
        self._nodes.append((metadata or {}).get("langgraph_node"))

    def to_others(self, decision: Mapping[str, Any]) -> int:
        """Returns how many requests were sent by nodes that are not agents of the decision's group."""
        agents = {*decision["agents"], *decision["failed_agents"]}
        return sum(node not in agents for node in self._nodes)
