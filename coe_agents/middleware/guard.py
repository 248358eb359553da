"""Owns the last check before a gated tool runs: where it is called, behind all other middleware.

A call runs if `_admit` returns the action that it belongs to: the gate has vouched for exactly this call
(`_find_vouched`), the tool gives its function what was compared (`_reads_alike`), and the action has not run before and
is at its tools as a whole (`Register.start`).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ToolCallRequest
from langchain_core.messages import AnyMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime
from langgraph.types import Command

from coe_agents._steps import Call, Steps, arun_steps, run_steps
from coe_agents.actions.canonical import tool_key
from coe_agents.checks import require
from coe_agents.middleware.marks import to_text
from coe_agents.middleware.once import REGISTER, VouchedAction
from coe_agents.middleware.parsing import INJECTED, tool_forms
from coe_agents.middleware.parsing import injected_arguments as _injected
from coe_agents.middleware.reviewer import EXECUTED
from coe_agents.middleware.verdict import last_reply
from coe_agents.middleware.withheld import not_run
from coe_agents.text import for_log

ToolResult = ToolMessage | Command[Any]
OnUncertain = Literal["block", "interrupt"]
_State = TypeVar("_State", bound=AgentState[Any])

_GUARDED_BY = "coe_guarded_by"
"""The attribute of a guarded tool that holds what guards it."""
_OTHER_TOOL = (
    "another tool than the one that was compared would run, and it reads the arguments otherwise"
)


@dataclass
class _GuardedRequest(ToolCallRequest):
    """A request whose tool is guarded, also where other middleware puts another one in its place."""

    guard: Callable[[BaseTool], BaseTool]

    def __post_init__(self) -> None:
        if self.tool is not None:
            object.__setattr__(self, "tool", self.guard(self.tool))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tool" and value is not None and "guard" in vars(self):
            value = self.guard(value)
        super().__setattr__(name, value)


class GuardsTools(AgentMiddleware[_State, Any, Any]):
    """Middleware that lets a gated tool run only as it was vouched for: this call, once, and with all of its action.

    Middleware behind this one may change the call, or choose another tool: only where the tool is called is it known
    what runs.
    """

    def __init__(
        self, name: str | None, tools: Collection[str] | None, *, may_gate_none: bool = False
    ) -> None:
        super().__init__()
        self._name = name or type(self).__name__
        self._gated = None if tools is None else _read_names(tools)
        """The names of the gated tools; None for all tools."""
        must = '"tools" must name at least one tool'
        require(
            self._gated != frozenset() or may_gate_none,
            must,
            tools,
            'Write tools=["transfer_money"]',
        )
        self._gated_keys = None if self._gated is None else frozenset(map(tool_key, self._gated))

    @property
    def name(self) -> str:
        """The name, by which create_agent tells middleware apart."""
        return self._name

    def before_agent(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls on which the user, asked to decide, wrote another message instead: they were not run."""
        return self._before_agent(state)

    async def abefore_agent(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls without a decision; see `before_agent`."""
        return self._before_agent(state)

    @hook_config(can_jump_to=["model", "end"])
    def after_model(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Decides on what the model proposes, or asks a person about it, before the tools are reached."""
        return run_steps(self._after_model(state, runtime))

    @hook_config(can_jump_to=["model", "end"])
    async def aafter_model(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Decides on what the model proposes; see `after_model`."""
        return await arun_steps(self._after_model(state, runtime))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]
    ) -> ToolResult:
        """Runs the tool if exactly this call may run; otherwise says why not."""
        return run_steps(self._refuse(request)) or _note_edit(
            handler(self._guarded(request)), request
        )

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Runs the tool if it may; see `wrap_tool_call`."""
        return await arun_steps(self._refuse(request)) or _note_edit(
            await handler(self._guarded(request)), request
        )

    def _before_agent(self, state: _State) -> dict[str, Any] | None:
        raise NotImplementedError

    def _after_model(self, state: _State, runtime: Runtime[Any]) -> Steps[dict[str, Any] | None]:
        raise NotImplementedError

    def _gates(self, name: str | None) -> bool:
        return self._gated_keys is None or tool_key(name or "") in self._gated_keys

    def _outputs(self, state: Any) -> Collection[str]:
        """Returns the names of the tools by which a structured answer is given."""
        return ()

    def _find_vouched(
        self, request: ToolCallRequest, call: ToolCall
    ) -> VouchedAction | ToolMessage:
        """Returns what was vouched for together with a gated call that is about to run, or its refusal."""
        raise NotImplementedError

    def _refuse(self, request: ToolCallRequest) -> Steps[ToolMessage | None]:
        """Returns the refusal of a call whose tool cannot be guarded, since other middleware brings it."""
        known = {tool.name for tool in request.runtime.tools}
        missing = sorted(
            ()
            if self._gated is None
            else self._gated.difference(known, self._outputs(request.state))
        )
        if missing and known:  # a misspelt name would gate nothing
            raise ValueError(
                f'"tools" of {self.name} must name tools of the agent; it has no {", ".join(missing)}. '
                f"Its tools are {', '.join(sorted(known))}"
            )
        call = request.tool_call
        if request.tool is None and self._gates(call["name"]):
            found = yield from self._admit(request, call)
            return found if isinstance(found, ToolMessage) else None
        return None

    def _admit(
        self, request: ToolCallRequest, call: ToolCall, tool: BaseTool | None = None
    ) -> Steps[VouchedAction | ToolMessage]:
        """Returns the action of a call that may run now, or the refusal of one that may not: here it is decided."""
        action = self._find_vouched(request, call)
        if isinstance(action, ToolMessage):
            return action
        if tool is not None and not _reads_alike(tool, call, action.forms, request):
            REGISTER.refuse(action.key)
            return not_run(
                call, _OTHER_TOOL, advice="Propose the call again if it is still to be made."
            )
        why_not = yield from REGISTER.start(
            action, call["id"] or "", request.runtime, request.runtime.store
        )
        if why_not is None:
            return action
        return not_run(call, why_not, advice="Propose it again if it is still to be done.")

    def _guarded(self, request: ToolCallRequest) -> ToolCallRequest:
        """Returns the request with this check before every tool that it could run."""
        outer = request.guard if isinstance(request, _GuardedRequest) else None
        is_gated_call = self._gates(request.tool_call["name"])

        def guard(tool: BaseTool) -> BaseTool:
            if getattr(tool, _GUARDED_BY, None) is guard:
                return tool
            if outer is not None:
                tool = outer(tool)
            if not (is_gated_call or self._gates(tool.name)):
                return tool
            guarded = self._guard(tool, request)
            object.__setattr__(guarded, _GUARDED_BY, guard)
            return guarded

        runtime = replace(request.runtime, tools=[guard(tool) for tool in request.runtime.tools])
        return _GuardedRequest(request.tool_call, request.tool, request.state, runtime, guard)

    def _guard(self, tool: BaseTool, request: ToolCallRequest) -> BaseTool:
        """Returns a tool's equal in all but this: it runs no gated call but one that was vouched for.

        A free tool may be run by middleware, too, but not in place of a gated one.
        """
        is_gated = self._gates(tool.name)

        def run(input: Any, *args: Any, **options: Any) -> Steps[Any]:
            is_call = isinstance(input, dict) and input.get("type") == "tool_call"
            if not is_gated and not (is_call and self._gates(input["name"])):
                return (yield Call(tool.invoke, tool.ainvoke, (input, *args), options))
            if not is_call:  # not from the agent: arguments alone
                refuse_method()
            # a call of another name has the arguments of that tool replaced
            hidden = _injected(tool) if input["name"] == tool.name else set[str]()
            shown = {key: value for key, value in input["args"].items() if key not in hidden}
            call = ToolCall(name=tool.name, args=shown, id=input["id"], type="tool_call")
            action = yield from self._admit(request, call, tool)
            if isinstance(action, ToolMessage):
                return action
            try:
                return (yield Call(tool.invoke, tool.ainvoke, (input, *args), options))
            except GraphInterrupt:
                yield from REGISTER.interrupt(action, call["id"] or "", request.runtime.store)
                raise

        def refuse_method(*_: Any, **__: Any) -> Any:
            raise RuntimeError(
                f'middleware behind {self.name} must not run the gated tool "{tool.name}" itself; got a call that does '
                "not come from the agent. In wrap_tool_call, call handler(request)"
            )

        def invoke(input: Any, *args: Any, **options: Any) -> Any:
            return run_steps(run(input, *args, **options))

        async def ainvoke(input: Any, *args: Any, **options: Any) -> Any:
            return await arun_steps(run(input, *args, **options))

        # the same tool in all else: middleware may look at its class, its schema or its fields
        guard = tool.model_copy()
        functions = [one for one in ("func", "coroutine") if callable(getattr(tool, one, None))]
        for method in ("run", "arun", "_run", "_arun", *functions) if is_gated else ():
            object.__setattr__(guard, method, refuse_method)
        object.__setattr__(
            guard, INJECTED, lambda: _injected(tool)
        )  # another gate cannot see it of this one
        object.__setattr__(guard, "invoke", invoke)
        object.__setattr__(guard, "ainvoke", ainvoke)
        return guard


def _read_names(tools: object) -> frozenset[str]:
    """Returns the names in a collection, which is read once: an iterator would be empty the next time."""
    names = None if isinstance(tools, str) or not isinstance(tools, Iterable) else list(tools)
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f'"tools" must be a list of names of tools; got {tools!r}. Write tools=["transfer_money"]'
        )
    return frozenset(names)


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two calls run alike: of one tool, with arguments that are the same JSON."""
    return one["name"] == other["name"] and to_text(one["args"]) == to_text(other["args"])


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
    return edit is not None and is_same_call(edit, call)


def _note_edit(result: Any, request: ToolCallRequest) -> Any:
    """Returns a tool's result, with the call that ran if a person edited it elsewhere: the message holds the former."""
    edit = edit_of(request.tool_call, request.state)
    if edit is None:
        return result
    for part in result if isinstance(result, list) else [result]:
        update = part.update if isinstance(part, Command) and isinstance(part.update, dict) else {}
        messages = update.get("messages", [])
        for message in [part, *(messages if isinstance(messages, list) else [messages])]:
            if isinstance(message, ToolMessage) and message.tool_call_id == request.tool_call["id"]:
                message.response_metadata = {**message.response_metadata, EXECUTED: dict(edit)}
    return result


def refuse(call: ToolCall, messages: list[AnyMessage]) -> ToolMessage:
    """Returns the reply to a call that nobody vouched for: what differs from the model's own, to be proposed again."""
    proposed = proposal_of(call, messages)
    if proposed is None:
        differs = "it is no call of your last message"
    elif proposed["name"] != call["name"]:
        differs = f"you called {_named(proposed['name'])}"
    else:
        was, now = proposed["args"], call["args"]
        nothing = object()
        names = [
            name
            for name in {**was, **now}
            if to_text(was.get(name, nothing)) != to_text(now.get(name, nothing))
        ]
        differs = (
            f"since then, {', '.join(map(_named, names))} changed"
            if names
            else "it was changed meanwhile"
        )
    why = f"the group has not vouched for this call; {differs}"
    return not_run(call, why, advice="Propose the call again, as it is meant to run.")


def _reads_alike(
    tool: BaseTool, call: ToolCall, forms: Collection[str], request: ToolCallRequest
) -> bool:
    """Returns whether a tool gives its function what was compared of a call: it has one of these forms.

    Without forms, as where judges or people read the call itself, the tool is compared with the agent's own of this
    name; with that of the request only where the agent has none, since middleware in front may have put it there.
    """
    if not forms:
        own = [one for one in request.runtime.tools if one.name == call["name"]]
        if not own and request.tool is not None and request.tool.name == call["name"]:
            own = [request.tool]
        if not own or own[0] is tool:
            return True
        forms = {*tool_forms(own[0], call)}
    return any(form in forms for form in tool_forms(tool, call))


def _named(name: str) -> str:
    return for_log(name, limit=80)
