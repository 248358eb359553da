"""Owns what a graph refuses and LangGraph leaves out: checkpoints of another graph, misspelt keys of a context."""

from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from difflib import get_close_matches
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.constants import CONFIG_KEY_CHECKPOINTER, TASKS
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send

from coe_agents.errors import CheckpointError

_LEADS_TO = "branch:to:"
"""How LangGraph's channels begin that lead to a node."""


class CoEStateGraph(StateGraph[Any, Any, Any, Any]):
    """A `StateGraph` that refuses what LangGraph, or its server, would leave out in silence.

    It is not resumed at a node that it does not have: the run would end without a decision. On a server, a key of the
    context that is nearly one of its own reaches it, and is an error.
    """

    def compile(self, *args: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        compiled = super().compile(*args, **options)
        compiled.__class__ = _Compiled
        return compiled


_MISSPELT = 0.8
"""The ratio of equal characters (`difflib`) from which on a key is a misspelt one: "max_co", but not "agent_id"."""


class _MisspeltToo(dict[str, Any]):
    """The properties of a context's schema, which claim to have misspelt ones, too.

    A LangGraph server drops the keys that are not `in` them before the graph sees any. Keys of others are dropped as
    before: without a context, a caller's `configurable` stands for it, which has such keys, too.
    """

    def __contains__(self, key: object) -> bool:
        near = get_close_matches(str(key), list(self), n=1, cutoff=_MISSPELT)
        return bool(near)


class _Compiled(CompiledStateGraph[Any, Any, Any, Any]):
    def get_context_jsonschema(self) -> dict[str, Any] | None:
        schema = super().get_context_jsonschema()
        if schema is not None:
            schema["properties"] = _MisspeltToo(schema["properties"])
        return schema

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        saver, merged = self._saver(config)
        if _is_resumed(input) and saver is not None:
            self._check(saver.get_tuple(merged))
        return super().stream(input, config, **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        run = super().astream(input, config, **options)
        if not _is_resumed(input):
            return run
        return self._once_checked(run, config)

    async def _once_checked(self, run: Any, config: RunnableConfig | None) -> AsyncIterator[Any]:
        saver, merged = self._saver(config)
        if saver is not None:
            self._check(await saver.aget_tuple(merged))
        async with aclosing(run):
            async for chunk in run:
                yield chunk

    def _saver(
        self, config: RunnableConfig | None
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig]:
        """Returns what has the checkpoints of a run, None without, and the config by which it finds them."""
        merged = merge_configs(self.config, config)
        configurable = merged.get("configurable", {})
        saver = configurable.get(CONFIG_KEY_CHECKPOINTER, self.checkpointer)
        if not isinstance(saver, BaseCheckpointSaver):
            return None, merged
        return saver, merged

    def _check(self, saved: CheckpointTuple | None) -> None:
        if saved is None:
            return
        missing = _missing_nodes(saved.checkpoint, self.nodes.keys())
        if missing:
            raise CheckpointError(
                f"the checkpoint of this thread continues at {', '.join(missing)}, which the graph does not have",
                hint="Resume it with the graph that wrote it, or ask the question again, which begins anew",
            )


def _is_resumed(graph_input: Any) -> bool:
    return graph_input is None or isinstance(graph_input, Command)


def _missing_nodes(checkpoint: Checkpoint, nodes: Collection[str]) -> list[str]:
    """Returns the nodes at which a checkpoint continues, and which are not among those of the graph."""
    versions = checkpoint["channel_versions"]
    newest = max(versions.values(), default=None)
    missing: set[str] = set()
    for channel, version in versions.items():
        # what led to a node in an earlier step, before the question was asked again, stays there
        if version != newest or not channel.startswith(_LEADS_TO):
            continue
        node = channel.removeprefix(_LEADS_TO)
        if node not in nodes:
            missing.add(node)

    tasks = checkpoint["channel_values"].get(TASKS)
    agents: set[str] = set()
    if isinstance(tasks, list | tuple):
        agents = {task.node for task in tasks if isinstance(task, Send)}
    # an agent that there is refuses the request itself, and names all that are missing
    if agents.isdisjoint(nodes):
        missing |= agents
    return sorted(missing)
