"""Owns the gate: a tool runs, and an answer is given, only if the group is certain and approves."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin, get_type_hints

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.checks import one_of
from coe_agents.graph.runnables import OneForm, steps_node
from coe_agents.middleware.approval import about_uncertain
from coe_agents.middleware.changed import Reply, edit_of, proposal_of, refuse
from coe_agents.middleware.reviewer import EXECUTED, NOT_RUN, about_answer, structured_text
from coe_agents.middleware.verdict import (
    Outcome,
    Verdict,
    create_unmeasured,
    fingerprint,
    in_words,
    last_reply,
    verdicts_of,
)
from coe_agents.middleware.verdicts import (
    DUPLICATES,
    SAME_ID,
    Asks,
    CoEVerdicts,
    OnError,
    Pending,
    VerdictState,
)
from coe_agents.middleware.withheld import not_run
from coe_agents.people import Approve, Edit, Reject, Respond, ask_for_decisions

OnUncertain = Literal["block", "interrupt"]

_INJECTED = "coe_injected"
"""The attribute of a guarded tool that returns the names of its injected arguments."""


class _Settling(TypedDict):
    """The state of the steps by which the calls of one message are settled; by the calls' ids.

    Attributes:
        edits: The calls that a person edited, by their place in the message.
        verdicts: The verdict of the group, or a person, on each call.
        answers: What the model is told in a tool's place, where a person rejected the call or answered.
    """

    edits: dict[str, Any]
    verdicts: dict[str, Verdict]
    answers: dict[str, ToolMessage]


class CoEMiddleware(CoEVerdicts):
    """Lets an agent of `create_agent` run the named tools only if a group of models is certain and approves.

    The group judges each call before the tools are reached, one call after another, and its verdicts are kept in
    private state: a resumed run does not ask again. A call that is not approved is answered with an error that says
    why, with the numbers. A verdict is valid for one call, by id, name and arguments: a call that is changed later, by
    whatever middleware, is refused when its tool is about to run, and the model is told to propose it again.

    The gate stays closed if the group is uncertain, or is certain and does not approve; if the replies are not a
    verdict; without `approves`, if anybody but the group or a person decided, or if the graph does not apply the
    `choices` that it is given; if asking the group fails; if a call has no id, or the id of an earlier call of the same
    message; and if a call or an answer is too long to be shown in full.

    Args:
        graph: See `CoEVerdicts`, as for `question`, `approves`, `include_results` and `name`.
        tools: The names of the gated tools.
        on_uncertain: "block", or "interrupt": a person is asked where the group is uncertain, once for all such calls
            of a message, in the form of LangChain's `HumanInTheLoopMiddleware` (`HITLRequest`), with each judge's vote,
            the numbers and what was asked. Resume with `{"decisions": [...]}`, one for each call:
            `{"type": "approve"}`, `{"type": "reject", "message": "..."}`, `{"type": "respond", "message": "..."}` (in
            the tool's place) or `{"type": "edit", "edited_action": {"name": ..., "args": {...}}}`; an edited call is
            judged in turn, and runs unless the group is confident and does not approve. After a reply that does not
            fit, the person is asked again. This needs a checkpointer; without one the run ends there.
        on_error: "block": a failure to ask closes the gate; "raise": it ends the run.
        final_answer: Whether the final answer, text or structured, is judged, too. A structured answer is judged with
            the text beside it, and after the calls of the same message, with their results. An answer that is not
            approved is replaced in the state. So is one that the group could not be shown in full, such as an answer
            with an image or the result of a `return_direct` tool that ends the run. Calls that were made with it stay
            in the state, without their results. Streams show the model's text before it is replaced, and the mode
            "messages" shows only that text: show users the last state only.

        trust_edits: Whether a call that a person edited in a `HumanInTheLoopMiddleware` may run as edited, which the
            group has not judged, if the call that it was may run.

    Raises:
        TypeError: If the graph is not compiled, or `tools` does not hold names.
        ValueError: If the parts do not fit together; at the first tool call if the agent lacks a gated tool, since a
            misspelt name would gate nothing.

    Example:
        >>> from langchain.agents import create_agent
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> from coe_agents.testing.driver import ScriptedDriver
        >>> def transfer_money(to: str) -> str:
        ...     "Sends all of it."
        >>> call = {"name": "transfer_money", "args": {"to": "Ann"}, "id": "1"}
        >>> driver = ScriptedDriver(script=[AIMessage("", tool_calls=[call]), AIMessage("Done.")])
        >>> judges = [ScriptedAgent("a", ["approve"]), ScriptedAgent("b", ["Reject."])]
        >>> graph = create_coe_graph(judges, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> gate = CoEMiddleware(graph, tools=["transfer_money"])
        >>> state = create_agent(driver, [transfer_money], middleware=[gate]).invoke({"messages": [("user", "Pay.")]})
        >>> state["messages"][2].text.partition(":")[0]
        'transfer_money was not run'
    """

    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        tools: Collection[str],
        question: Callable[[ToolCallRequest], str] | None = None,
        approves: Callable[[str], bool] | None = None,
        on_uncertain: OnUncertain = "block",
        on_error: OnError = "block",
        final_answer: bool = False,
        include_results: bool = False,
        trust_edits: bool = False,
        name: str | None = None,
    ) -> None:
        one_of(on_uncertain, '"on_uncertain"', get_args(OnUncertain))
        self._on_uncertain, self._judges_answers = on_uncertain, final_answer
        super().__init__(
            graph,
            tools=tools,
            question=question,
            approves=approves,
            on_error=on_error,
            include_results=include_results,
            trust_edits=trust_edits,
            name=name,
        )

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group about the final answer, if this is one, and about the calls of the model's last message."""
        return run_steps(self._after_model(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group; see `after_model`."""
        return await arun_steps(self._after_model(state, runtime))

    def _after_model(self, state: VerdictState, runtime: Runtime[Any]) -> Steps[dict[str, Any] | None]:
        if (asks := self._about_answer(state)) is not None:
            return self._decide_answer(state, (yield from self._review(asks, get_config())))
        pending = Pending(state, self._gated)
        if self._on_uncertain == "block" or not self._judged(pending):
            return (yield from super()._after_model(state, runtime))
        start = _Settling(edits={}, verdicts={}, answers={})
        settled = yield invoke(self._steps(pending, runtime), start, get_config())
        return self._update_settled(state, pending, settled)

    def after_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Withholds the final answer unless the group has approved exactly this answer."""
        return run_steps(self._after_agent(state))

    async def aafter_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Withholds the end of the run unless approved; see `after_agent`."""
        return await arun_steps(self._after_agent(state))

    def _after_agent(self, state: VerdictState) -> Steps[dict[str, Any] | None]:
        if (asks := self._about_end(state)) is None:
            return None
        return self._decide_answer(state, (yield from self._review(asks, get_config())), jump=False)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Reply]) -> Reply:
        """Runs the tool if the group, or a person where the group is uncertain, approves the call as it runs."""
        return self._refuse(request) or _note_edit(handler(self._guarded(request)), request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Reply]]
    ) -> Reply:
        """Runs the tool if it may; see `wrap_tool_call`."""
        return self._refuse(request) or _note_edit(await handler(self._guarded(request)), request)

    def _steps(self, pending: Pending, runtime: Runtime[Any]) -> Runnable[Any, Any]:
        """Returns the graph that settles a message's calls: the group judges, a person decides, the group judges edits.

        It is a graph of its own so that a run resumed after the interrupt finds the verdicts.
        """

        def unjudged(state: _Settling) -> list[ToolCall]:
            pending.replace({int(place): call for place, call in state["edits"].items()})
            settled = state["verdicts"].keys() | state["answers"].keys()
            return [call for call in self._judged(pending) if call["id"] not in settled]

        def known(state: _Settling) -> dict[str, dict[str, Verdict]]:
            verdicts, message_id = state["verdicts"], pending.reply.id if pending.reply else None
            judged = [call for call in pending.calls if call["id"] in verdicts]
            return {fingerprint(call, message_id): {self.name: verdicts[call["id"] or ""]} for call in judged}

        def judge(state: _Settling, _: RunnableConfig) -> Steps[dict[str, Any]]:
            verdicts = {**state["verdicts"]}
            for request in [pending.request(call, runtime, known(state)) for call in unjudged(state)]:
                id_, verdict = request.tool_call["id"] or "", (yield from self._review_call(request))
                if verdict["outcome"] == "uncertain" and id_ in {call["id"] for call in state["edits"].values()}:
                    verdict = _by_person(verdict, "approved", f"a person wrote it; {in_words(verdict)}")
                verdicts[id_] = verdict
            return {"verdicts": verdicts}

        steps = StateGraph(_Settling)
        steps.add_node("judge", steps_node(judge, name="judge"))
        steps.add_node("person", OneForm(lambda state: _ask_person(pending, state)))
        steps.add_node("judge_edits", steps_node(judge, name="judge_edits"))
        for one, other in pairwise((START, "judge", "person", "judge_edits", END)):
            steps.add_edge(one, other)
        return steps.compile()

    def _update_settled(
        self, state: VerdictState, pending: Pending, settled: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        if settled["edits"]:
            pending.replace({int(place): call for place, call in settled["edits"].items()})
        return self._update(state, pending, settled["verdicts"], [*settled["answers"].values()])

    def _about_answer(self, state: VerdictState) -> Asks | None:
        """Returns the maker of the question about the final answer; None before the agent has answered.

        A structured answer beside calls is the end of the run only when those have been made.
        """
        found = last_reply(state["messages"])
        if not self._judges_answers or found is None:
            return None
        place, reply = found
        structured = state.get("structured_response")
        # without one, a message with calls is no answer, even if something else replied to all of them
        if reply.tool_calls and (structured is None or Pending(state, self._gated).calls):
            return None
        return partial(about_answer, reply, structured, state["messages"][:place])

    def _about_end(self, state: VerdictState) -> Asks | None:
        """Returns the maker of the question about the end of the run; None if that is decided already."""
        messages = state["messages"]
        found = last_reply(messages)
        decided = state.get("coe_answers", {})
        if (
            not self._judges_answers
            or found is None
            or _end_of(state, messages) in (decided.get(self.name), decided.get(""))
        ):
            return None
        place, reply = found
        after, last = messages[place + 1 :], messages[-1]
        if not after and (asks := self._about_answer(state)) is not None:
            return asks
        structured, ids = state.get("structured_response"), {call["id"] for call in reply.tool_calls}
        results = {one.tool_call_id for one in after if isinstance(one, ToolMessage)}
        if structured is not None and results <= ids and len(results) == len(after):
            return partial(about_answer, reply, structured, messages[:place], after)
        what = f"the result of {last.name}" if isinstance(last, ToolMessage) else f"a message of type {last.type!r}"
        return lambda: create_unmeasured("uncertain", f"the run ends with {what}, which the group is not shown")

    def _decide_answer(self, state: VerdictState, verdict: Verdict, *, jump: bool = True) -> dict[str, Any]:
        """Gives the answer or withholds it, and records what was decided."""
        messages = state["messages"]
        if verdict["outcome"] == "approved":
            return {"coe_answers": {**state.get("coe_answers", {}), self.name: _end_of(state, messages)}}
        found = last_reply(messages)
        place, reply = found if found is not None else (len(messages), AIMessage(""))
        text = f"I withhold my answer: {in_words(verdict)}."
        # the question and the replies would repeat the answer
        silent: Verdict = {**verdict, "question": None, "votes": {}, "answer": None}
        after, is_structured = messages[place + 1 :], state.get("structured_response") is not None
        # that calls were made stays known, lest the agent makes them again; the first reply is the structured answer's
        kept = [one for one in after[is_structured:] if isinstance(one, ToolMessage)]
        ids = {one.tool_call_id for one in kept}
        calls = [call for call in reply.tool_calls if call["id"] in ids]
        withheld = AIMessage(
            text, id=str(uuid.uuid4()) if calls else reply.id, response_metadata={"coe_verdict": silent}
        )
        if calls:
            hidden = {"content": "The result is withheld.", "artifact": None}
            now: list[Any] = [
                AIMessage("", id=reply.id, tool_calls=calls),
                *(one.model_copy(update=hidden) for one in kept),
                *(RemoveMessage(one.id) for one in after if one not in kept and one.id),
                withheld,
            ]
        else:
            now = [withheld, *(RemoveMessage(one.id) for one in after if one.id)]
        update: dict[str, Any] = {"messages": now, "coe_answers": {"": _end_of({}, [withheld])}}
        if jump:
            update["jump_to"] = "end"
        if is_structured:
            update["structured_response"] = None
        return update

    def _refuse(self, request: ToolCallRequest) -> ToolMessage | None:
        """Returns the refusal of a call that cannot have a verdict, or whose tool cannot be wrapped."""
        self._check_names(self._gated, request)
        call = request.tool_call
        if call["id"] in (request.state.get(DUPLICATES) or ()):
            return _blocked(call, create_unmeasured("failed", SAME_ID))
        # the tool of another middleware cannot be wrapped here
        if call["name"] in self._gated and (request.tool is None or not call["id"]):
            return self._refuse_as_it_runs(request, call)
        return None

    def _refuse_as_it_runs(self, request: ToolCallRequest, call: ToolCall) -> ToolMessage | None:
        """Returns the refusal of a gated call as it is about to run; None if exactly this call was approved."""
        if not call["id"]:  # the tool would run, and its result would belong to no call
            return _blocked(call, create_unmeasured("failed", "the call has no id"))
        verdict = verdicts_of(request.state, call).get(self.name)
        if verdict is None:
            return None if self._is_trusted(request, call) else refuse(call, request.state["messages"])
        return None if verdict["outcome"] == "approved" else _blocked(call, verdict)

    def _is_trusted(self, request: ToolCallRequest, call: ToolCall) -> bool:
        """Returns whether a call is a trusted person's edit of one that was free to run, or approved."""
        proposed = proposal_of(call, request.state["messages"])
        if proposed is None or not super()._is_trusted(request, call):
            return False
        verdict = verdicts_of(request.state, proposed).get(self.name)
        return proposed["name"] not in self._gated or (verdict is not None and verdict["outcome"] == "approved")

    def _guarded(self, request: ToolCallRequest) -> ToolCallRequest:
        """Returns the request with this gate before every tool that it could run.

        Middleware behind this one may change the call, or choose another tool of the agent: only where the tool is
        called is it known what runs.
        """
        tools = [self._guard(tool, request) for tool in request.runtime.tools]
        tool = request.tool and self._guard(request.tool, request)
        return replace(request, tool=tool, runtime=replace(request.runtime, tools=tools))

    def _guard(self, tool: BaseTool, request: ToolCallRequest) -> BaseTool:
        """Returns a gated tool's equal in all but this: it runs no call but an approved one of `handler(request)`."""
        if tool.name not in self._gated:
            return tool

        def refused(input: Any) -> ToolMessage | None:
            if not isinstance(input, dict) or input.get("type") != "tool_call":  # not from the agent: arguments alone
                refuse_method()
            # a call of another name has the arguments of that tool replaced
            hidden = _injected(tool) if input["name"] == tool.name else set[str]()
            shown = {key: value for key, value in input["args"].items() if key not in hidden}
            call = ToolCall(name=tool.name, args=shown, id=input["id"], type="tool_call")
            return self._refuse_as_it_runs(request, call)

        def invoke(input: Any, *args: Any, **options: Any) -> Any:
            return refused(input) or tool.invoke(input, *args, **options)

        async def ainvoke(input: Any, *args: Any, **options: Any) -> Any:
            return refused(input) or await tool.ainvoke(input, *args, **options)

        def refuse_method(*_: Any, **__: Any) -> Any:
            raise RuntimeError(
                f'middleware behind {self.name} must not run the gated tool "{tool.name}" itself; got a call that does '
                "not come from the agent. In wrap_tool_call, call handler(request)"
            )

        # the same tool in all else: middleware may look at its class, its schema or its fields
        guard = tool.model_copy()
        functions = [one for one in ("func", "coroutine") if callable(getattr(tool, one, None))]
        for method in ("run", "arun", "_run", "_arun", *functions):
            object.__setattr__(guard, method, refuse_method)
        object.__setattr__(guard, _INJECTED, lambda: _injected(tool))  # another gate cannot see it of this one
        object.__setattr__(guard, "invoke", invoke)
        object.__setattr__(guard, "ainvoke", ainvoke)
        return guard


def _ask_person(pending: Pending, state: _Settling) -> dict[str, Any]:
    """Asks a person about all calls that the group is uncertain about, and returns the decisions."""
    verdicts, answers, edits = dict(state["verdicts"]), dict[str, ToolMessage](), dict[str, Any]()
    uncertain = [
        (call, verdicts[id_])
        for call in pending.calls
        if (id_ := call["id"]) in verdicts and id_ not in pending.duplicates and verdicts[id_]["outcome"] == "uncertain"
    ]
    if not uncertain or pending.reply is None:
        return {}
    places = {call["id"]: place for place, call in enumerate(pending.reply.tool_calls)}
    decisions = ask_for_decisions([about_uncertain(call, verdict) for call, verdict in uncertain])
    for (call, verdict), decision in zip(uncertain, decisions, strict=True):
        id_ = call["id"] or ""
        outcome: Outcome = "rejected"
        match decision:
            case Edit(edited_action=action):
                edits[str(places[id_])] = {**call, "name": action.name, "args": action.args}
                del verdicts[id_]
                continue
            case Approve():
                outcome, why = "approved", f"a person approved it; {in_words(verdict)}"
            case Reject(message=message):
                why = f"a person rejected it{': ' if message else ''}{message}"
                answers[id_] = not_run(call["name"], id_, why)
            case Respond(message=message):
                why = "a person answered in its place"
                answers[id_] = ToolMessage(
                    message, name=call["name"], tool_call_id=id_, response_metadata={NOT_RUN: True}
                )
        verdicts[id_] = _by_person(verdict, outcome, why)
    return {"verdicts": verdicts, "answers": answers, "edits": edits}


def _by_person(verdict: Verdict, outcome: Outcome, why: str) -> Verdict:
    return {**verdict, "outcome": outcome, "decided_by": "person", "reason": why}


def _blocked(call: ToolCall, verdict: Verdict) -> ToolMessage:
    """Returns the message for the driving model instead of the tool's result."""
    silent = {**verdict, "question": None, "votes": {}}  # they are in the private state
    return not_run(call["name"], call["id"] or "", in_words(verdict), artifact=silent)


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


def _injected(tool: BaseTool) -> set[str]:
    """Returns the injected arguments, which the model is not shown and the agent replaces."""
    if (known := getattr(tool, _INJECTED, None)) is not None:
        found: set[str] = known()
        return found
    whole, shown = tool.get_input_schema(), tool.tool_call_schema
    if isinstance(shown, type) and issubclass(shown, BaseModel):
        return set(getattr(whole, "model_fields", {})) - set(shown.model_fields)
    # a schema in JSON, as the tools of an MCP server have it, names none: the function does
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    hints = _hints(function) if function else {}
    return {name for name, hint in hints.items() if name == "runtime" or _is_injected(hint)}


def _is_injected(hint: Any) -> bool:
    """Returns whether the agent replaces an argument with this annotation, whatever the model gives for it."""
    marks = (get_origin(hint) or hint, *getattr(hint, "__metadata__", ()))
    return any(
        issubclass(mark if isinstance(mark, type) else type(mark), InjectedToolArg | ToolRuntime) for mark in marks
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return dict(getattr(function, "__annotations__", {}))


def _end_of(state: Mapping[str, Any], messages: list[AnyMessage]) -> str:
    """Returns what identifies the end of a run: the model's last message, what follows it, a structured answer."""
    found = last_reply(messages)
    rest = messages if found is None else messages[found[0] :]
    end = [[message.type, message.id, repr(message.content), repr(message.additional_kwargs)] for message in rest]
    structured = state.get("structured_response")
    whole = (end, None if structured is None else structured_text(structured))
    return hashlib.sha256(repr(whole).encode(errors="replace")).hexdigest()
