"""Owns how nodes and gates run, synchronously or not, and which graph can run inside another."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from coe_agents._steps import Steps, arun_steps, run_steps
from coe_agents.graph.state import read_state


class TwoForms(Runnable[Any, Any]):
    """A node with a sync and an async form.

    `RunnableLambda(sync, afunc=async)` does the same, but traces what LangGraph already traces, and inspects the
    function at each call; with many questions at once this took a fifth of the graph's time.
    """

    name: str

    def __init__(
        self,
        sync: Callable[[Any, RunnableConfig], Any],
        asynchronous: Callable[[Any, RunnableConfig], Awaitable[Any]],
        *,
        name: str,
    ) -> None:
        self._sync = sync
        self._asynchronous = asynchronous
        self.name = name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self._sync(input, config or RunnableConfig())

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await self._asynchronous(input, config or RunnableConfig())


def steps_node(steps: Callable[[Any, RunnableConfig], Steps[Any]], *, name: str) -> TwoForms:
    """Returns the node whose both forms run these steps."""

    def run(state: Any, config: RunnableConfig) -> Any:
        return run_steps(steps(state, config))

    async def arun(state: Any, config: RunnableConfig) -> Any:
        return await arun_steps(steps(state, config))

    return TwoForms(run, arun, name=name)


class BriefNode(TwoForms):
    """A step that computes briefly: an asynchronous run calls it on the event loop.

    LangGraph runs a plain function in a thread, which costs more than such a step. `slow_with` is a channel with which
    it may take long, such as a caller's schema: then it runs in a thread, too.
    """

    def __init__(self, step: Callable[[Any], Any], *, slow_with: str = "") -> None:
        def run(state: Any, _: RunnableConfig) -> Any:
            return step(state)

        async def run_on_the_loop(state: Any, _: RunnableConfig) -> Any:
            if slow_with and state.get(slow_with) is not None:
                return await asyncio.to_thread(step, state)
            return step(state)

        super().__init__(run, run_on_the_loop, name=step.__name__)


def of_this_version(node: TwoForms) -> TwoForms:
    """Returns a node that refuses the state that another version of coe-agents wrote; see `read_state`."""

    def invoke(state: Any, config: RunnableConfig) -> Any:
        return node.invoke(read_state(state), config)

    async def ainvoke(state: Any, config: RunnableConfig) -> Any:
        return await node.ainvoke(read_state(state), config)

    return TwoForms(invoke, ainvoke, name=node.name)


def check_compiled(graph: object) -> Runnable[Any, Any]:
    """Returns `graph` if it can run inside a tool, an agent or a chain; otherwise raises TypeError or ValueError."""
    if not isinstance(graph, Runnable):
        raise TypeError(
            f'"graph" must be a compiled graph; got {type(graph).__name__}. Compile it: create_coe_graph(...).compile()'
        )
    checkpointer = getattr(graph, "checkpointer", None)
    # with one, a question would see the earlier ones
    if checkpointer not in (None, False):
        raise ValueError(
            '"graph" must have no checkpointer of its own; it was compiled with one. '
            "Omit it: inside an agent the graph uses the agent's"
        )
    return graph


def disable_streaming(config: RunnableConfig) -> RunnableConfig:
    """Keeps an agent's samples out of `stream_mode="messages"`: nothing is shown before the gate."""
    return {**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]}
