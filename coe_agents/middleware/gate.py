"""Owns the gate: a tool runs, and an answer is given, only if the group is certain and approves."""

import hashlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Literal, get_args

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.checks import one_of
from coe_agents.graph.people import Approve, Edit, Reject, Respond, ask_for_decisions
from coe_agents.graph.runnables import OneForm, steps_node
from coe_agents.middleware.approval import about_uncertain
from coe_agents.middleware.guard import Reply, edit_of
from coe_agents.middleware.marks import is_mark, make_mark
from coe_agents.middleware.reviewer import EXECUTED, NOT_RUN, about_answer, structured_text
from coe_agents.middleware.verdict import (
    Outcome,
    Verdict,
    create_unmeasured,
    fingerprint,
    has_mark,
    in_words,
    last_reply,
    mark_verdict,
)
from coe_agents.middleware.verdicts import (
    DUPLICATES,
    SAME_ID,
    Asks,
    CoEVerdicts,
    OnError,
    Pending,
    VerdictState,
    block_call,
)
from coe_agents.middleware.withheld import not_run

OnUncertain = Literal["block", "interrupt"]

_WRITTEN = "a person wrote it"
"""The reason of the verdict on a call that a person edited; it stays "uncertain" until the group has judged it."""


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
        reply: Reply = _note_edit(super().wrap_tool_call(request, handler), request)
        return reply

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Reply]]
    ) -> Reply:
        """Runs the tool if it may; see `wrap_tool_call`."""
        reply: Reply = _note_edit(await super().awrap_tool_call(request, handler), request)
        return reply

    def _steps(self, pending: Pending, runtime: Runtime[Any]) -> Runnable[Any, Any]:
        """Returns the graph that settles a message's calls: the group judges, a person decides, the group judges edits.

        It is a graph of its own so that a run resumed after the interrupt finds the verdicts.
        """
        message_id = pending.reply.id if pending.reply else None

        def marked(state: _Settling) -> dict[str | None, Verdict]:
            """Returns the verdicts that this gate wrote, by the calls' ids."""
            pending.replace({int(place): call for place, call in state["edits"].items()})
            found = [(call, state["verdicts"].get(call["id"] or "")) for call in pending.calls]
            return {call["id"]: one for call, one in found if one and has_mark(one, self.name, call, message_id)}

        def judge(state: _Settling, _: RunnableConfig) -> Steps[dict[str, Any]]:
            verdicts, found = {**state["verdicts"]}, marked(state)
            written = {
                id_ for id_, one in found.items() if (one["decided_by"], one["outcome"]) == ("person", "uncertain")
            }
            judged = {id_: verdict for id_, verdict in found.items() if id_ not in written}
            known = {
                fingerprint(call, message_id): {self.name: judged[call["id"]]}
                for call in pending.calls
                if call["id"] in judged
            }
            settled = judged.keys() | state["answers"].keys()
            for call in [call for call in self._judged(pending) if call["id"] not in settled]:
                verdict = yield from self._review_call(pending.request(call, runtime, known))
                if verdict["outcome"] == "uncertain" and call["id"] in written:
                    allowed = _by_person(verdict, "approved", f"{_WRITTEN}; {in_words(verdict)}")
                    verdict = mark_verdict(allowed, self.name, call, message_id)
                verdicts[call["id"] or ""] = verdict
            return {"verdicts": verdicts}

        def ask(state: _Settling) -> dict[str, Any]:
            return _ask_person(pending, state, self.name, marked(state))

        steps = StateGraph(_Settling)
        steps.add_node("judge", steps_node(judge, name="judge"))
        steps.add_node("person", OneForm(ask))
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
        if not self._judges_answers or found is None:
            return None
        decided, end = state.get("coe_answers", {}), _end_of(state, messages)
        if any(is_mark(decided.get(gate), make_mark("answer", gate, None, (), end)) for gate in (self.name, "")):
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
            mark = make_mark("answer", self.name, None, (), _end_of(state, messages))
            return {"coe_answers": {**state.get("coe_answers", {}), self.name: mark}}
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
        update: dict[str, Any] = {
            "messages": now,
            "coe_answers": {"": make_mark("answer", "", None, (), _end_of({}, [withheld]))},
        }
        if jump:
            update["jump_to"] = "end"
        if is_structured:
            update["structured_response"] = None
        return update

    def _refuse_early(self, request: ToolCallRequest) -> ToolMessage | None:
        self._check_names(self._gated, request)
        if request.tool_call["id"] in (request.state.get(DUPLICATES) or ()):
            return block_call(request.tool_call, create_unmeasured("failed", SAME_ID))
        return None

    def _lets_pass(self, verdict: Verdict) -> bool:
        return verdict["outcome"] == "approved"


def _ask_person(pending: Pending, state: _Settling, gate: str, marked: Mapping[str | None, Verdict]) -> dict[str, Any]:
    """Asks a person about all calls that the group is uncertain about, and returns the decisions.

    Where the mark of a verdict is not the gate's, what was replied so far is not used: it may be about another call.
    """
    verdicts, answers, edits = dict(state["verdicts"]), dict[str, ToolMessage](), dict[str, Any]()
    uncertain = [
        (call, verdicts[id_])
        for call in pending.calls
        if (id_ := call["id"]) in verdicts and id_ not in pending.duplicates and verdicts[id_]["outcome"] == "uncertain"
    ]
    if not uncertain or pending.reply is None:
        return {}
    message_id = pending.reply.id
    places = {call["id"]: place for place, call in enumerate(pending.reply.tool_calls)}
    is_own = all(call["id"] in marked for call, _ in uncertain)
    asked = [call for call, _ in uncertain]
    anew = None if is_own else make_mark("waits", gate, message_id, asked, [verdict for _, verdict in uncertain])
    decisions = ask_for_decisions([about_uncertain(call, verdict) for call, verdict in uncertain], anew=anew)
    for (call, verdict), decision in zip(uncertain, decisions, strict=True):
        id_ = call["id"] or ""
        now = call
        outcome: Outcome = "rejected"
        match decision:
            case Edit(edited_action=action):
                edits[str(places[id_])] = now = {**call, "name": action.name, "args": action.args}
                outcome, why = "uncertain", _WRITTEN
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
        verdicts[id_] = mark_verdict(_by_person(verdict, outcome, why), gate, now, message_id)
    return {"verdicts": verdicts, "answers": answers, "edits": edits}


def _by_person(verdict: Verdict, outcome: Outcome, why: str) -> Verdict:
    return {**verdict, "outcome": outcome, "decided_by": "person", "reason": why}


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


def _end_of(state: Mapping[str, Any], messages: list[AnyMessage]) -> str:
    """Returns what identifies the end of a run: the model's last message, what follows it, a structured answer."""
    found = last_reply(messages)
    rest = messages if found is None else messages[found[0] :]
    end = [[message.type, message.id, repr(message.content), repr(message.additional_kwargs)] for message in rest]
    structured = state.get("structured_response")
    whole = (end, None if structured is None else structured_text(structured))
    return hashlib.sha256(repr(whole).encode(errors="replace")).hexdigest()
