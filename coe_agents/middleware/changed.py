"""Owns the refusal of calls that, when they are about to run, are not what was vouched for."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from langchain.agents.middleware.types import AgentMiddleware, AgentState, ToolCallRequest
from langchain_core.messages import AnyMessage, ToolCall, ToolMessage
from langgraph.types import Command

from coe_agents.middleware.verdict import last_reply
from coe_agents.middleware.withheld import not_run
from coe_agents.text import for_log

Reply = ToolMessage | Command[Any]
_State = TypeVar("_State", bound=AgentState[Any])


def check_names(tools: Collection[str]) -> frozenset[str]:
    """Returns the names of the gated tools; raises TypeError if they are no names."""
    if isinstance(tools, str) or not all(isinstance(tool, str) for tool in tools):
        raise TypeError(f'"tools" must be a list of names of tools; got {tools!r}. Write tools=["transfer_money"]')
    return frozenset(tools)


class RefusesCalls(AgentMiddleware[_State, Any, Any]):
    """Middleware that compares each call that is about to run with what was vouched for."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name or type(self).__name__

    @property
    def name(self) -> str:
        """The name, by which create_agent tells middleware apart."""
        return self._name

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Reply]) -> Reply:
        """Runs the tool if exactly this call may run; otherwise says why not."""
        return self._refuse(request) or handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Reply]]
    ) -> Reply:
        """Runs the tool if it may; see `wrap_tool_call`."""
        return self._refuse(request) or await handler(request)

    def _refuse(self, request: ToolCallRequest) -> ToolMessage | None:
        """Returns the refusal of a call; None if it may run."""
        raise NotImplementedError

    def _check_names(self, gated: Collection[str], request: ToolCallRequest, outputs: Collection[str] = ()) -> None:
        """Raises ValueError if the agent lacks a gated tool, which a misspelt name would leave ungated."""
        known = {tool.name for tool in request.runtime.tools}
        missing = sorted({*gated}.difference(known, outputs))
        if missing and known:
            raise ValueError(
                f'"tools" of {self.name} must name tools of the agent; it has no {", ".join(missing)}. '
                f"Its tools are {', '.join(sorted(known))}"
            )


def proposal_of(call: ToolCall, messages: list[AnyMessage]) -> ToolCall | None:
    """Returns the call with the same id in the model's last message; None without one."""
    found = last_reply(messages)
    proposed = [] if found is None else found[1].tool_calls
    return next((one for one in proposed if one["id"] == call["id"]), None)


def edit_of(call: ToolCall, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns what a person made of a call in a `HumanInTheLoopMiddleware`, which keeps it until the call has run.

    With `interrupt_mode="per_call"` it keeps nothing: such an edit cannot be told from a change by other middleware.
    """
    edits: Mapping[str | None, Any] = state.get("hitl_edited_tool_calls") or {}
    return edits.get(call["id"])


def is_edited(call: ToolCall, state: Mapping[str, Any]) -> bool:
    """Returns whether a call is, as it stands, what a person made of it; see `edit_of`."""
    edit = edit_of(call, state)
    return edit is not None and (edit["name"], edit["args"]) == (call["name"], call["args"])


def refuse(call: ToolCall, messages: list[AnyMessage]) -> ToolMessage:
    """Returns the reply to a call that nobody vouched for: what differs from the model's own, to be proposed again."""
    proposed = proposal_of(call, messages)
    if proposed is None:
        differs = "it is no call of your last message"
    elif proposed["name"] != call["name"]:
        differs = f"you called {_named(proposed['name'])}"
    else:
        was, now = proposed["args"], call["args"]
        names = [name for name in {**was, **now} if was.get(name) != now.get(name) or (name in was) != (name in now)]
        differs = f"since then, {', '.join(map(_named, names))} changed" if names else "it was changed meanwhile"
    return not_run(
        call["name"],
        call["id"] or "",
        f"the group has not vouched for this call; {differs}",
        advice="Propose the call again, as it is meant to run.",
    )


def _named(name: str) -> str:
    return for_log(name, limit=80)
