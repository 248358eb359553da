"""Owns the gate: a tool runs, and an answer is given, only if the group is certain and approves."""

import hashlib
import inspect
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, get_args

from langchain.agents.middleware.types import (
    AgentState,
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.agents.requests.endings import IN_WORDS, judge_end
from coe_agents.checks import one_of
from coe_agents.errors import is_control_flow
from coe_agents.graph.nodes.agent import without_votes
from coe_agents.graph.runnables import OneForm, check_compiled, steps_node
from coe_agents.middleware.driver import AsyncHandler, Driver, Handler
from coe_agents.middleware.gate_review import WRITTEN, ReviewState, ask_person, by_person
from coe_agents.middleware.guard import GuardsTools, OnUncertain, is_edited, proposal_of, refuse
from coe_agents.middleware.marks import NOT_SHARED, is_mark, make_mark
from coe_agents.middleware.once import VouchedAction, new_action
from coe_agents.middleware.open_calls import DUPLICATES, ProposedCalls, close_calls
from coe_agents.middleware.reviewer import about_answer, about_call, structured_text
from coe_agents.middleware.verdict import (
    VERDICTS,
    Verdict,
    create_unmeasured,
    fingerprint,
    has_mark,
    in_words,
    last_reply,
    mark_verdict,
    read_verdict,
    verdicts_of,
)
from coe_agents.middleware.withheld import not_run
from coe_agents.prompts import REVIEW_CHOICES
from coe_agents.text import visible

logger = logging.getLogger(__name__)

OnError = Literal["block", "raise"]
Asks = Callable[[], str | Verdict]
"""Returns the question for the group, or a verdict where there is nothing to ask."""

SAME_ID = "another call of the same message has its id"
_MOST_DRIVERS = 10_000
"""So many messages are remembered with the models that gave them."""


class VerdictState(AgentState[Any]):
    """The agent's state with the verdicts, which neither its input nor its output holds."""

    coe_verdicts: NotRequired[Annotated[dict[str, dict[str, Verdict]], PrivateStateAttr]]
    coe_duplicates: NotRequired[Annotated[list[str], PrivateStateAttr]]
    coe_answers: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr]
    ]  # the mark of the decided end, by gate; "": of a withheld one


class CoEMiddleware(GuardsTools[VerdictState]):
    """Lets an agent of `create_agent` run the named tools only if a group of models is certain and approves.

    The group judges each call before the tools are reached, one call after another, and its verdicts are kept in
    private state: a resumed run does not ask again. A call that is not approved is answered with an error that says
    why, with the numbers. A verdict is valid for one call, by id, name and arguments: a call that is changed later, by
    whatever middleware, is refused when its tool is about to run, and the model is told to propose it again.

    A judge whose model gave the message that is judged, by its provider and name, has no vote: it counts as one that
    gives no verdict.

    The gate stays closed if the group is uncertain, or is certain and does not approve; if the replies are not a
    verdict; without `approves`, if anybody but the group or a person decided, or if the graph does not apply the
    `choices` that it is given; if asking the group fails; if a call has no id, or the id of an earlier call of the same
    message; and if a call or an answer is too long to be shown in full.

    Args:
        graph: A compiled graph of `create_coe_graph`, without a checkpointer of its own.
        tools: The names of the gated tools; None for all tools.
        question: From a call to the question; its `tool` is None, as the call is judged before the tools are reached.
            By default `coe_agents.prompts.review_tool_call`, with the conversation, the calls of this turn
            that were made already, and the other calls of the same message. It must ask for "approve" or "reject",
            unless `approves` is given.
        approves: Whether the group's answer approves. By default each judge's raw reply, without the reasoning
            block that opens it, must be "approve" or "reject" alone (`clustering.answers.parse_choice`); anything
            else counts as a third reply, which approves nothing. The graph's clusterer and canonical answers are not
            used then, and a `ModelAgent` gives the exact probabilities of the two words where its model can.
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
        include_results: Whether the default question also shows what the calls of this turn returned, which anyone may
            have written.
        trust_edits: Whether a call that a person edited in a `HumanInTheLoopMiddleware` may run as edited, which the
            group has not judged, if the call that it was may run.
        name: Distinguishes several of them in one agent; by default the name of the class.

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

    state_schema = VerdictState

    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        tools: Collection[str] | None,
        question: Callable[[ToolCallRequest], str] | None = None,
        approves: Callable[[str], bool] | None = None,
        on_uncertain: OnUncertain = "block",
        on_error: OnError = "block",
        final_answer: bool = False,
        include_results: bool = False,
        trust_edits: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name, tools, may_gate_none=final_answer)
        one_of(on_uncertain, '"on_uncertain"', get_args(OnUncertain))
        one_of(on_error, '"on_error"', get_args(OnError), advice='"block" is safe')
        self._graph = check_compiled(graph)
        self._on_uncertain, self._on_error = on_uncertain, on_error
        self._question, self._approves = question, approves
        self._judges_answers, self._include_results = final_answer, include_results
        self._trust_edits = trust_edits
        self._drivers = dict[str, Driver]()  # by the id of the message

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelCallResult[Any]:
        """Calls the model as it is, and notes which one answers: it has no vote on what it says."""
        driver = Driver()
        returned = handler(driver.observe(request))
        self._note(driver, returned)
        return returned

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ModelCallResult[Any]:
        """Calls the model as it is; see `wrap_model_call`."""
        driver = Driver()
        returned = await handler(driver.observe(request))
        self._note(driver, returned)
        return returned

    def _note(self, driver: Driver, returned: ModelCallResult[Any]) -> None:
        response = (
            returned.model_response if isinstance(returned, ExtendedModelResponse) else returned
        )
        messages = [response] if isinstance(response, AIMessage) else response.result
        driver.note_reply(messages)
        self._drivers |= {message.id: driver for message in messages if message.id is not None}
        while len(self._drivers) > _MOST_DRIVERS:
            self._drivers.pop(next(iter(self._drivers)), None)

    def _driver_of(self, messages: Sequence[AnyMessage]) -> Driver:
        """Returns who gave the last message: as this process saw it, else as the message itself says."""
        found = last_reply(messages)
        driver = Driver()
        if found is not None:
            driver.note_reply([found[1]])
            driver = self._drivers.get(found[1].id or "", driver)
        return driver

    def _before_agent(self, state: VerdictState) -> dict[str, Any] | None:
        return close_calls(state["messages"], self._gates)

    def _find_vouched(
        self, request: ToolCallRequest, call: ToolCall
    ) -> VouchedAction | ToolMessage:
        if not call["id"]:  # the tool would run, and its result would belong to no call
            return block_call(call, create_unmeasured("failed", "the call has no id"))
        messages = request.state["messages"]
        verdict = verdicts_of(request.state, call).get(self.name)
        if verdict is not None and verdict["outcome"] != "approved":
            return block_call(call, verdict)
        key = self._key_of_edit(request, call) if verdict is None else verdict["action_key"]
        return (
            refuse(call, messages) if key is None else VouchedAction(key, frozenset({call["id"]}))
        )

    def _key_of_edit(self, request: ToolCallRequest, call: ToolCall) -> str | None:
        """Returns the key of the model's own call, if a trusted person made this one of it and it was free to run."""
        messages = request.state["messages"]
        found, proposed = last_reply(messages), proposal_of(call, messages)
        if (
            not self._trust_edits
            or found is None
            or proposed is None
            or not is_edited(call, request.state)
        ):
            return None
        if not self._gates(proposed["name"]):
            return new_action(self.name, found[1].id, call["id"])
        verdict = verdicts_of(request.state, proposed).get(self.name)
        if verdict is None or verdict["outcome"] != "approved":
            return None
        return verdict["action_key"]

    def _after_model(
        self, state: VerdictState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        if (asks := self._about_answer(state)) is not None:
            return self._decide_answer(
                state, (yield from self._review(asks, state["messages"], get_config()))
            )
        proposed = ProposedCalls(state, self._gates)
        judged = self._judged(proposed)
        if judged and self._on_uncertain == "interrupt":
            start = ReviewState(
                edits={},
                verdicts={},
                answers={},
                is_asked_anew=False,
                asks_again=True,
                gives_up=False,
            )
            decided = yield invoke(self._steps(proposed, runtime), start, get_config())
            proposed.replace(decided["edits"])
            answers = [*decided["answers"].values()]
            if decided.get("gives_up"):
                changed = [proposed.reply] if proposed.reply and proposed.is_changed else []
                last = AIMessage(f"I stop here: {NOT_SHARED}.", id=str(uuid.uuid4()))
                mark = make_mark("answer", "", None, (), _end_of({}, [last]))
                return {
                    "messages": [*changed, *answers, last],
                    "coe_answers": {"": mark},
                    "jump_to": "end",
                }
            return self._update(state, proposed, decided["verdicts"], answers)
        verdicts = dict[str | None, Verdict]()
        # one after another, so that each finds its own run if the group's graph is resumed
        for call in judged:
            verdicts[call["id"]] = yield from self._review_call(proposed.request(call, runtime))
        return self._update(state, proposed, verdicts)

    def _review_call(self, request: ToolCallRequest) -> Steps[Verdict]:
        """Asks the group about a call, and returns its verdict, marked."""
        messages = request.state["messages"]
        verdict = yield from self._review(
            lambda: self._about_call(request), messages, request.runtime.config
        )
        found = last_reply(messages)
        return mark_verdict(
            verdict, self.name, request.tool_call, None if found is None else found[1].id
        )

    def _review(
        self, asks: Asks, messages: Sequence[AnyMessage], config: RunnableConfig
    ) -> Steps[Verdict]:
        """Asks the group about the last message, and returns its verdict; a failure to ask is the verdict "failed"."""
        try:
            asked = asks()
            if isinstance(asked, dict):
                return asked
            shown = visible(asked)
            # a reading of the user's own reads answers, which the graph extracts
            kind = (
                {"is_review": True}
                if self._approves is not None
                else {"choices": list(REVIEW_CHOICES)}
            )
            with without_votes(self._driver_of(messages).is_of):
                result = yield invoke(self._graph, {"question": shown, **kind}, config)
            return read_verdict(result, self._approves, shown)
        except Exception as error:
            # LangGraph handles interrupts inside the graph, and replies that it cannot use
            if self._on_error == "raise" or is_control_flow(error):
                raise
            logger.warning(
                "the gate is closed: asking the group failed with %s", type(error).__name__
            )
            # only the type: the text of an error may reveal what the driving model must not read
            return create_unmeasured("failed", f"asking it failed with {type(error).__name__}")

    def _about_call(self, request: ToolCallRequest) -> str | Verdict:
        found = last_reply(request.state["messages"])
        if found is not None and (ending := judge_end(found[1])) != "whole":
            return create_unmeasured(
                "failed", f"the model's message does not count: {IN_WORDS[ending]}"
            )
        if self._question is not None:
            asked: object = self._question(request)
            if inspect.iscoroutine(asked):
                asked.close()
            if not isinstance(asked, str):
                raise TypeError(
                    f'"question" must return a string; got {type(asked).__name__}. Write a plain function'
                )
            return asked
        calls = [] if found is None else found[1].tool_calls
        verdicts = {call["id"]: verdicts_of(request.state, call).get(self.name) for call in calls}
        approved = {
            id_ for id_, verdict in verdicts.items() if verdict and verdict["outcome"] == "approved"
        }
        return about_call(request, approved, include_results=self._include_results)

    def _judged(self, proposed: ProposedCalls) -> list[ToolCall]:
        """Returns the calls that need a verdict; one without an id can have none."""
        return [call for call in proposed.calls if self._gates(call["name"]) and call["id"]]

    def _update(
        self,
        state: VerdictState,
        proposed: ProposedCalls,
        verdicts: Mapping[str | None, Verdict],
        answers: Sequence[ToolMessage] = (),
    ) -> dict[str, Any] | None:
        if proposed.reply is None or not (verdicts or answers or proposed.is_changed):
            return None
        # of the other verdicts, only those of another gate on the same calls
        known = state.get("coe_verdicts", {})
        current = {fingerprint(call, proposed.reply.id): call for call in proposed.calls}
        kept = {key: known[key] for key in current if key in known}
        for key, call in current.items():
            if (verdict := verdicts.get(call["id"])) is not None:
                if call["id"] in proposed.duplicates:
                    failed: Verdict = {**verdict, "outcome": "failed", "reason": SAME_ID}
                    verdict = mark_verdict(failed, self.name, call, proposed.reply.id)
                kept[key] = {**kept.get(key, {}), self.name: verdict}
        changed = [proposed.reply] if proposed.is_changed else []
        update: dict[str, Any] = {VERDICTS: kept, DUPLICATES: proposed.duplicates}
        return {**update, "messages": [*changed, *answers]} if changed or answers else update

    def after_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Withholds the final answer unless the group has approved exactly this answer."""
        return run_steps(self._after_agent(state))

    async def aafter_agent(
        self, state: VerdictState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Withholds the end of the run unless approved; see `after_agent`."""
        return await arun_steps(self._after_agent(state))

    def _after_agent(self, state: VerdictState) -> Steps[dict[str, Any] | None]:
        if (asks := self._about_end(state)) is None:
            return None
        return self._decide_answer(
            state, (yield from self._review(asks, state["messages"], get_config()))
        )

    def _steps(self, proposed: ProposedCalls, runtime: Runtime[Any]) -> Runnable[Any, Any]:
        """Returns the graph that settles a message's calls: the group judges, a person decides, the group judges edits.

        It is a graph of its own so that a run resumed after the interrupt finds the verdicts.
        """
        message_id = proposed.reply.id if proposed.reply else None

        def marked(state: ReviewState) -> dict[str | None, Verdict]:
            """Returns the verdicts that this gate wrote, by the calls' ids."""
            proposed.replace(state["edits"])
            found = [(call, state["verdicts"].get(call["id"] or "")) for call in proposed.calls]
            return {
                call["id"]: one
                for call, one in found
                if one and has_mark(one, self.name, call, message_id)
            }

        def judge(state: ReviewState, _: RunnableConfig) -> Steps[dict[str, Any]]:
            verdicts, found = {**state["verdicts"]}, marked(state)
            written = {
                id_
                for id_, one in found.items()
                if (one["decided_by"], one["outcome"]) == ("person", "uncertain")
            }
            judged = {id_: verdict for id_, verdict in found.items() if id_ not in written}
            known = {
                fingerprint(call, message_id): {self.name: judged[call["id"]]}
                for call in proposed.calls
                if call["id"] in judged
            }
            settled = judged.keys() | state["answers"].keys()
            for call in [call for call in self._judged(proposed) if call["id"] not in settled]:
                verdict = yield from self._review_call(proposed.request(call, runtime, known))
                if verdict["outcome"] == "uncertain" and call["id"] in written:
                    allowed = by_person(verdict, "approved", f"{WRITTEN}; {in_words(verdict)}")
                    verdict = mark_verdict(allowed, self.name, call, message_id)
                verdicts[call["id"] or ""] = verdict
            return {"verdicts": verdicts}

        def ask(state: ReviewState) -> dict[str, Any]:
            return ask_person(proposed, state, self.name, marked(state))

        steps = StateGraph(ReviewState)
        steps.add_node("judge", steps_node(judge, name="judge"))
        steps.add_node("person", OneForm(ask))
        steps.add_node("judge_edits", steps_node(judge, name="judge_edits"))
        for one, other in ((START, "judge"), ("judge", "person"), ("judge_edits", END)):
            steps.add_edge(one, other)
        steps.add_conditional_edges(
            "person", lambda state: "person" if state["asks_again"] else "judge_edits"
        )
        return steps.compile()

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
        if reply.tool_calls and (structured is None or ProposedCalls(state, self._gates).calls):
            return None
        return partial(about_answer, reply, structured, state["messages"][:place])

    def _about_end(self, state: VerdictState) -> Asks | None:
        """Returns the maker of the question about the end of the run; None if that is decided already."""
        messages = state["messages"]
        found = last_reply(messages)
        if not self._judges_answers or found is None:
            return None
        decided, end = state.get("coe_answers", {}), _end_of(state, messages)
        if any(
            is_mark(decided.get(gate), make_mark("answer", gate, None, (), end))
            for gate in (self.name, "")
        ):
            return None
        place, reply = found
        after, last = messages[place + 1 :], messages[-1]
        if not after and (asks := self._about_answer(state)) is not None:
            return asks
        structured, ids = (
            state.get("structured_response"),
            {call["id"] for call in reply.tool_calls},
        )
        results = {one.tool_call_id for one in after if isinstance(one, ToolMessage)}
        if structured is not None and results <= ids and len(results) == len(after):
            return partial(about_answer, reply, structured, messages[:place], after)
        what = (
            f"the result of {last.name}"
            if isinstance(last, ToolMessage)
            else f"a message of type {last.type!r}"
        )
        return lambda: create_unmeasured(
            "uncertain", f"the run ends with {what}, which the group is not shown"
        )

    def _decide_answer(self, state: VerdictState, verdict: Verdict) -> dict[str, Any]:
        """Gives the answer or withholds it, and records what was decided."""
        messages = state["messages"]
        if verdict["outcome"] == "approved":
            mark = make_mark("answer", self.name, None, (), _end_of(state, messages))
            return {"coe_answers": {**state.get("coe_answers", {}), self.name: mark}}
        found = last_reply(messages)
        place, reply = found if found is not None else (len(messages), AIMessage(""))
        # the question and the replies would repeat the answer, and so would a reason that quotes them
        silent: Verdict = {**verdict, "question": None, "votes": {}, "answer": None}
        if not {reply for vote in verdict["votes"].values() for reply in vote} <= {*REVIEW_CHOICES}:
            silent["reason"] = (
                'not all replies are "approve" or "reject", and they may repeat the answer'
            )
        text = f"I withhold my answer: {in_words(silent)}."
        after, is_structured = messages[place + 1 :], state.get("structured_response") is not None
        # that calls were made stays known, lest the agent makes them again; the first reply is the structured answer's
        kept = [one for one in after[is_structured:] if isinstance(one, ToolMessage)]
        ids = {one.tool_call_id for one in kept}
        calls = [call for call in reply.tool_calls if call["id"] in ids]
        withheld = AIMessage(
            text,
            id=str(uuid.uuid4()) if calls else reply.id,
            response_metadata={"coe_verdict": silent},
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
            "jump_to": "end",
        }
        if is_structured:
            update["structured_response"] = None
        return update


def block_call(call: ToolCall, verdict: Verdict) -> ToolMessage:
    """Returns the message for the driving model instead of the tool's result."""
    silent = {**verdict, "question": None, "votes": {}}  # they are in the private state
    return not_run(call, in_words(verdict), artifact=silent)


def _end_of(state: Mapping[str, Any], messages: list[AnyMessage]) -> str:
    """Returns what identifies the end of a run: the model's last message, what follows it, a structured answer."""
    found = last_reply(messages)
    rest = messages if found is None else messages[found[0] :]
    end = [
        [message.type, message.id, repr(message.content), repr(message.additional_kwargs)]
        for message in rest
    ]
    structured = state.get("structured_response")
    whole = (end, None if structured is None else structured_text(structured))
    return hashlib.sha256(repr(whole).encode(errors="replace")).hexdigest()
