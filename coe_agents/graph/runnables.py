"""Owns the two wrappers of nodes: `TwoForms`, sync and async, and `OneForm`, which both kinds of run call."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig

from coe_agents.graph.state import CoEState


class StateNode(Protocol):
    """A node that reads the whole state."""

    def __call__(self, state: CoEState) -> Any: ...


class TwoForms(Runnable[Any, Any]):
    """A node with a sync and an async form.

    `RunnableLambda(sync, afunc=async)` does the same, but traces what LangGraph already traces, and inspects the
    function at each call; with many questions at once this took a fifth of the graph's time.
    """

    def __init__(
        self,
        sync: Callable[[Any, RunnableConfig], Any],
        asynchronous: Callable[[Any, RunnableConfig], Awaitable[Any]],
        *,
        name: str,
    ) -> None:
        self._sync, self._asynchronous, self.name = sync, asynchronous, name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the sync form."""
        return self._sync(input, config or RunnableConfig())

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the async form."""
        return await self._asynchronous(input, config or RunnableConfig())


class OneForm(Runnable[Any, Any]):
    """A step that computes briefly: an asynchronous run calls it on the event loop.

    LangGraph runs a plain function in a thread, which costs more than such a step.
    """

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step, self.name = step, step.__name__

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the step."""
        return self._step(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the step."""
        return self._step(input)
