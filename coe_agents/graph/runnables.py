"""Owns what a step of the graph is made of: two forms, or one that both kinds of run call."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig

from coe_agents.graph.state import CoEState


class StateNode(Protocol):
    """A node that reads the whole state."""

    def __call__(self, state: CoEState) -> Any: ...


class TwoForms(Runnable[Any, dict[str, Any]]):
    """A node with a sync and an async form.

    `RunnableLambda(sync, afunc=async)` does the same, but traces a second time what LangGraph traces already, and
    inspects the function at each call; with many questions at once that was a fifth of the graph's time.
    """

    def __init__(
        self,
        sync: Callable[[Any, RunnableConfig], dict[str, Any]],
        asynchronous: Callable[[Any, RunnableConfig], Awaitable[dict[str, Any]]],
        *,
        name: str,
    ) -> None:
        self._sync, self._asynchronous, self.name = sync, asynchronous, name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Runs the sync form."""
        return self._sync(input, config or RunnableConfig())

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Runs the async form."""
        return await self._asynchronous(input, config or RunnableConfig())


class OneForm(Runnable[Any, Any]):
    """A step that only computes, and not for long: an asynchronous run calls it on the event loop.

    LangGraph gives a plain function a thread, which costs more than such a step does.
    """

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step, self.name = step, step.__name__

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the step."""
        return self._step(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Runs the step."""
        return self._step(input)
