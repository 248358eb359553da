"""Owns the last check before a gated tool runs: where it is called, behind all other middleware.

A call runs if `_admit` returns the action that it belongs to: the gate has vouched for exactly this call
(`_find_vouched`), the tool gives its function what was compared (`_reads_alike`), and the action has not run before and
is at its tools as a whole (`Register.start`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ToolCallRequest
from langchain_core.messages import AnyMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime
from langgraph.types import Command

from coe_agents._steps import Call, Steps, arun_steps, run_steps
from coe_agents.actions.proposals import check_call
from coe_agents.checks import one_of
from coe_agents.middleware.gated import GatedTools, Tools
from coe_agents.middleware.marks import to_text
from coe_agents.middleware.once import REGISTER, VouchedAction
from coe_agents.middleware.parsing import INJECTED, tool_forms
from coe_agents.middleware.parsing import injected_arguments as _injected
from coe_agents.middleware.reviewer import EXECUTED
from coe_agents.middleware.verdict import last_reply
from coe_agents.middleware.withheld import not_run
from coe_agents.text import for_log

ToolResult = ToolMessage | Command[Any]
OnUncertain = Literal["block", "interrupt", "observe"]
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
        self,
        name: str | None,
        tools: Tools | None,
        *,
        on_uncertain: OnUncertain,
        may_gate_none: bool = False,
    ) -> None:
        super().__init__()
        one_of(on_uncertain, '"on_uncertain"', get_args(OnUncertain))
        self._name = name or type(self).__name__
        self._on_uncertain = on_uncertain
        self._observes = on_uncertain == "observe"
        """Whether nothing is withheld, and nothing vouched for: what would be is only recorded."""
        self._gated = GatedTools(tools, self._name)
        if self._gated.is_none and not may_gate_none:
            raise ValueError(
                f'"tools" must name at least one tool; got {tools}. Write tools=["transfer_money"]'
            )

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
        self._check_names(request)
        if self._observes:
            return handler(request)
        withheld = run_steps(self._admit_before_tool(request))
        if withheld is not None:
            return withheld
        result = handler(self._guarded(request))
        _note_edit(result, request)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Runs the tool if it may; see `wrap_tool_call`."""
        self._check_names(request)
        if self._observes:
            return await handler(request)
        withheld = await arun_steps(self._admit_before_tool(request))
        if withheld is not None:
            return withheld
        result = await handler(self._guarded(request))
        _note_edit(result, request)
        return result

    def _before_agent(self, state: _State) -> dict[str, Any] | None:
        raise NotImplementedError

    def _after_model(self, state: _State, runtime: Runtime[Any]) -> Steps[dict[str, Any] | None]:
        raise NotImplementedError

    def _gates(self, name: str | None) -> bool:
        """Returns whether some calls of a tool of this name are gated."""
        return name in self._gated

    def _was_judged(self, request: ToolCallRequest) -> bool:
        """Returns whether the gate decided on the call of this id, which may have changed since then."""
        raise NotImplementedError

    def _gates_call(self, request: ToolCallRequest, tool: BaseTool | None = None) -> bool:
        """Returns whether a call that is about to run must have been vouched for.

        What was judged stays gated, also where a condition finds otherwise now, or other middleware gives it another
        name; `tool` is what runs, whose name may differ from that of the call.
        """
        if self._stays_gated(request) or self._gated.has(request, tool):
            return True
        if tool is None or tool.name == request.tool_call["name"]:
            return False
        of_tool = request.override(tool_call={**request.tool_call, "name": tool.name})
        return self._gated.has(of_tool, tool)

    def _stays_gated(self, request: ToolCallRequest) -> bool:
        """Returns whether a call was judged, or has lost the name of a gated tool, though no person made it another."""
        call = request.tool_call
        if self._gates(call["name"]):
            return self._was_judged(request)

        # a condition may have let it pass without a judgement, but as the call of that tool
        proposed = proposal_of(call, request.state["messages"])
        was_gated = proposed is not None and self._gates(proposed["name"])
        return was_gated and not is_edited(call, request.state)

    def _outputs(self, state: Any) -> Collection[str]:
        """Returns the names of the tools by which a structured answer is given."""
        return ()

    def _find_vouched(
        self, request: ToolCallRequest, call: ToolCall
    ) -> VouchedAction | ToolMessage:
        """Returns what was vouched for together with a gated call that is about to run, or its refusal."""
        raise NotImplementedError

    def _check_names(self, request: ToolCallRequest) -> None:
        """Refuses a misspelt name, which would gate nothing, or not as strictly as it says."""
        known = {tool.name for tool in request.runtime.tools}
        if not known:
            return
        for where, missing in self._missing_among({*known, *self._outputs(request.state)}).items():
            if missing:
                raise ValueError(
                    f'"tools" of {where} must name tools of the agent; it has no {", ".join(missing)}. '
                    f"Its tools are {', '.join(sorted(known))}"
                )

    def _missing_among(self, known: Collection[str]) -> dict[str, list[str]]:
        """Returns the names of tools that the agent does not have, by what names them."""
        return {self.name: self._gated.missing_among(known)}

    def _admit_before_tool(self, request: ToolCallRequest) -> Steps[ToolMessage | None]:
        """Returns the reply to a call that may not run, where its tool is not known yet: other middleware brings it.

        The tool is guarded where it is put into this request. Where it is not, nothing else stands before it.
        """
        if request.tool is not None or not self._gates_call(request):
            return None
        admitted = yield from self._admit(request, request.tool_call)
        if isinstance(admitted, ToolMessage):
            return admitted
        return None

    def _admit(
        self, request: ToolCallRequest, call: ToolCall, tool: BaseTool | None = None
    ) -> Steps[VouchedAction | ToolMessage]:
        """Returns the action of a call that may run now, or the reply to one that may not: here it is decided."""
        action = self._find_vouched(request, call)
        if isinstance(action, ToolMessage):
            return action

        if tool is not None:
            fault = _why_not_received(tool, call, action.forms, request)
            if fault is not None:
                REGISTER.close(action.key)
                advice = "Propose the call again if it is still to be made."
                return not_run(call, fault, advice=advice)

        runtime = request.runtime
        why_not = yield from REGISTER.start(
            action, call["id"] or "", runtime, runtime.store, calls_tool=tool is not None
        )
        if why_not is None:
            return action
        return not_run(call, why_not, advice="Propose it again if it is still to be done.")

    def _guarded(self, request: ToolCallRequest) -> ToolCallRequest:
        """Returns the request with this check before every tool that it could run."""
        outer = request.guard if isinstance(request, _GuardedRequest) else None
        is_gated_call = self._gates(request.tool_call["name"]) or self._stays_gated(request)

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

        tools = list(map(guard, request.runtime.tools))
        runtime = replace(request.runtime, tools=tools)
        return _GuardedRequest(request.tool_call, request.tool, request.state, runtime, guard)

    def _guard(self, tool: BaseTool, request: ToolCallRequest) -> BaseTool:
        """Returns a tool's equal in all but this: it runs no gated call but one that was vouched for.

        A free tool may be run by middleware, too, but not in place of a gated one.
        """
        is_gated = self._gates(tool.name)

        def run(input: Any, *args: Any, **options: Any) -> Steps[Any]:
            is_call = isinstance(input, dict) and input.get("type") == "tool_call"
            run_tool = Call(tool.invoke, tool.ainvoke, (input, *args), options)
            if not is_call:  # not from the agent: arguments alone
                if is_gated:
                    refuse_method()
                return (yield run_tool)

            arguments = dict(input["args"])
            if input["name"] == tool.name:  # a call of another name has those of that tool replaced
                proposed = proposal_of(input, request.state["messages"])
                for name in _injected(tool):
                    arguments.pop(name, None)
                    if proposed is not None and name in proposed["args"]:
                        arguments[name] = proposed["args"][name]
            call = ToolCall(name=input["name"], args=arguments, id=input["id"], type="tool_call")
            at_tool = ToolCallRequest(call, tool, request.state, request.runtime)
            if not self._gates_call(at_tool, tool):
                return (yield run_tool)

            call = {**call, "name": tool.name}
            action = yield from self._admit(request, call, tool)
            if isinstance(action, ToolMessage):
                return action
            try:
                return (yield run_tool)
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
        guarded = tool.model_copy()
        if is_gated:
            for method in ("run", "arun", "_run", "_arun", "func", "coroutine"):
                if callable(getattr(tool, method, None)):
                    object.__setattr__(guarded, method, refuse_method)
        # another gate cannot see the function of this one, nor what is injected into it
        object.__setattr__(guarded, INJECTED, lambda: _injected(tool))
        object.__setattr__(guarded, "invoke", invoke)
        object.__setattr__(guarded, "ainvoke", ainvoke)
        return guarded


def is_same_call(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two calls run alike: of one tool, with arguments that are the same JSON."""
    return one["name"] == other["name"] and to_text(one["args"]) == to_text(other["args"])


def proposal_of(call: ToolCall, messages: list[AnyMessage]) -> ToolCall | None:
    """Returns the call with the same id in the model's last message; None without one."""
    _, reply = last_reply(messages)
    for proposed in reply.tool_calls:
        if proposed["id"] == call["id"]:
            return proposed
    return None


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


def _note_edit(result: Any, request: ToolCallRequest) -> None:
    """Adds to a tool's result the call that ran, if a person edited it elsewhere: the message holds the former."""
    call_id = request.tool_call["id"]
    edit = edit_of(request.tool_call, request.state)
    if edit is None:
        return

    parts = result if isinstance(result, list) else [result]
    messages = [*parts]
    for part in parts:
        if isinstance(part, Command) and isinstance(part.update, dict):
            update = part.update.get("messages", [])
            messages += update if isinstance(update, list) else [update]
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
            message.response_metadata = {**message.response_metadata, EXECUTED: dict(edit)}


def not_vouched_for(call: ToolCall, messages: list[AnyMessage]) -> ToolMessage:
    """Returns the reply to a call that nobody vouched for: what differs from the model's own, to be proposed again."""
    proposed = proposal_of(call, messages)
    if proposed is None:
        differs = "it is no call of your last message"
    elif proposed["name"] != call["name"]:
        differs = f"you called {_named(proposed['name'])}"
    else:
        differs = _changed_arguments(proposed["args"], call["args"])
    why = f"the group has not vouched for this call; {differs}"
    return not_run(call, why, advice="Propose the call again, as it is meant to run.")


def _changed_arguments(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    missing = object()
    names = []
    for name in {**before, **now}:
        if to_text(before.get(name, missing)) != to_text(now.get(name, missing)):
            names.append(_named(name))
    if not names:
        return "the group was not asked about your message as it stands"
    return f"since then, {', '.join(names)} changed"


def _why_not_received(
    tool: BaseTool, call: ToolCall, forms: Collection[str], request: ToolCallRequest
) -> str | None:
    """Returns why a tool would not give its function what was judged of a call; None if it does."""
    if not _reads_alike(tool, call, forms, request):
        return _OTHER_TOOL
    try:
        check_call(call, [tool])
    except ValueError as error:
        return for_log(str(error))
    return None


def _reads_alike(
    tool: BaseTool, call: ToolCall, forms: Collection[str], request: ToolCallRequest
) -> bool:
    """Returns whether a tool gives its function what was compared of a call: it has one of these forms.

    Without forms, as where judges or people read the call itself, the tool is compared with the agent's own of this
    name; with that of the request only where the agent has none, since middleware in front may have put it there.
    """
    if not forms:
        agents_own = None
        for known in request.runtime.tools:
            if known.name == call["name"]:
                agents_own = known
                break
        if agents_own is None:
            agents_own = request.tool
        if agents_own is None or agents_own is tool:
            return True
        forms = {*tool_forms(agents_own, call)}
    return any(form in forms for form in tool_forms(tool, call))


def _named(name: str) -> str:
    return for_log(name, limit=80)
