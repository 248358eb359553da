"""Owns the gate: a tool runs, and an answer is given, only if the group is certain and approves."""

import hashlib
import inspect
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import (
    AgentState,
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from coe_agents._removed import refuses_removed
from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.agents.requests.endings import IN_WORDS, Ending, judge_end
from coe_agents.checks import flag
from coe_agents.errors import is_control_flow
from coe_agents.graph.nodes.agent import without_votes
from coe_agents.graph.runnables import BriefNode, check_compiled, steps_node
from coe_agents.middleware.driver import AsyncHandler, Driver, Handler
from coe_agents.middleware.gate_review import WRITTEN, ReviewState, ask_about_calls, by_person
from coe_agents.middleware.gated import Tools
from coe_agents.middleware.guard import (
    GuardsTools,
    OnUncertain,
    is_edited,
    not_vouched_for,
    proposal_of,
)
from coe_agents.middleware.marks import NOT_SHARED, is_mark, make_mark
from coe_agents.middleware.once import VouchedAction, new_action
from coe_agents.middleware.open_calls import DUPLICATES, ProposedCalls, close_calls
from coe_agents.middleware.reviewer import about_answer, about_call, structured_text
from coe_agents.middleware.verdict import (
    VERDICTS,
    Verdict,
    are_all_failed,
    create_unmeasured,
    fingerprint,
    has_mark,
    in_words,
    is_unopposed,
    kind_of,
    last_reply,
    mark_verdict,
    read_verdict,
    verdicts_of,
)
from coe_agents.middleware.withheld import NO_OBJECTION, NOT_JUDGED, UNREPEATED, not_run
from coe_agents.prompts import REVIEW_CHOICES
from coe_agents.text import for_log, visible
from coe_agents.types import WITHHELD_MARK

logger = logging.getLogger(__name__)

Asks = Callable[[], str | Verdict]
"""Returns the question for the group, or a verdict where there is nothing to ask."""

SAME_ID = "another call of the same message has its id"
_MOST_DRIVERS = 10_000
"""So many messages are remembered with the models that gave them."""


class VerdictState(AgentState[Any]):
    """The agent's state with the verdicts, which neither its input nor its output holds.

    Attributes:
        coe_answers: The mark of the decided end, by gate; "": of a withheld one.
    """

    coe_verdicts: NotRequired[Annotated[dict[str, dict[str, Verdict]], PrivateStateAttr]]
    coe_duplicates: NotRequired[Annotated[list[str], PrivateStateAttr]]
    coe_answers: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]


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
        tools: The gated tools, by name, pattern or condition, as in `CoECouncil`; None for all tools.
        question: From a call to the question; its `tool` is None, as the call is judged before the tools are reached.
            By default `coe_agents.prompts.review_tool_call`, with the conversation, the calls of this turn
            that were made already, and the other calls of the same message. It must ask for "approve" or "reject",
            unless `approves` is given.
        approves: Whether the group's answer approves. By default each judge's raw reply, without the reasoning
            block that opens it, must be "approve" or "reject" alone (`clustering.answers.parse_choice`); anything
            else counts as a third reply, which approves nothing. The graph's clusterer and canonical answers are not
            used then, and a `ModelAgent` gives the exact probabilities of the two words where its model can.
        on_uncertain: "block"; "observe": nothing is withheld, and nothing vouched for: what the group finds is in the
            event `gate_observed`, and in what its graph records; or "interrupt": a person is asked where the group is
            uncertain, once for all such calls of a message, in the form of LangChain's `HumanInTheLoopMiddleware`
            (`HITLRequest`), with each judge's vote, the numbers and what was asked. Resume with `{"decisions": [...]}`,
            one for each call: `{"type": "approve"}`, `{"type": "reject", "message": "..."}`, `{"type": "respond",
            "message": "..."}` (in the tool's place) or `{"type": "edit", "edited_action": {"name": ..., "args":
            {...}}}`; an edited call is judged in turn, and runs unless the group is confident and does not approve.
            After a reply that does not fit, the person is asked again. This needs a checkpointer; without one the run
            ends there.
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

    @refuses_removed
    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        tools: Tools | None,
        question: Callable[[ToolCallRequest], str] | None = None,
        approves: Callable[[str], bool] | None = None,
        on_uncertain: OnUncertain = "block",
        final_answer: bool = False,
        include_results: bool = False,
        trust_edits: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name, tools, on_uncertain=on_uncertain, may_gate_none=final_answer)
        self._graph = check_compiled(graph)
        self._question = question
        self._approves = approves
        self._judges_answers = flag(final_answer, '"final_answer" of CoEMiddleware')
        self._include_results = flag(include_results, '"include_results" of CoEMiddleware')
        self._trust_edits = flag(trust_edits, '"trust_edits" of CoEMiddleware')
        self._drivers = dict[str, Driver]()  # by the id of the message, and by those of its calls
        self._newest: Driver | None = None

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelCallResult[Any]:
        """Calls the model as it is, and notes which one answers: it has no vote on what it says."""
        if self._waits(request):
            return ModelResponse([])
        driver = Driver(request.tools)
        returned = handler(driver.observe(request))
        self._note(driver, returned)
        return returned

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ModelCallResult[Any]:
        """Calls the model as it is; see `wrap_model_call`."""
        if self._waits(request):
            return ModelResponse([])
        driver = Driver(request.tools)
        returned = await handler(driver.observe(request))
        self._note(driver, returned)
        return returned

    def _waits(self, request: ModelRequest[Any]) -> bool:
        """Returns whether calls wait for a person, who is asked about them anew: no model is asked again."""
        if self._on_uncertain != "interrupt":
            return False
        return self._is_asked_anew(request.state, ProposedCalls(request.state, self._gates))

    def _is_asked_anew(self, state: Mapping[str, Any], proposed: ProposedCalls) -> bool:
        """Returns whether a former task found that what a person replied cannot be about these calls."""
        # also by another process, of another secret
        known = state.get("coe_verdicts") or {}
        for call in proposed.calls:
            verdict = known.get(fingerprint(call, proposed.reply.id), {}).get(self.name)
            if verdict is not None and verdict["outcome"] == "uncertain":
                return True
        return False

    def _note(self, driver: Driver, returned: ModelCallResult[Any]) -> None:
        if isinstance(returned, ExtendedModelResponse):
            returned = returned.model_response
        messages = [returned] if isinstance(returned, AIMessage) else returned.result
        driver.note_reply(messages)
        self._newest = driver
        for message in messages:
            if isinstance(message, AIMessage) and (message.tool_calls or self._judges_answers):
                driver.sign(message)
            if message.id is None:  # LangGraph would give it one
                message.id = str(uuid.uuid4())
            self._drivers |= dict.fromkeys(_ids_in(message), driver)
        while len(self._drivers) > _MOST_DRIVERS:
            oldest = next(iter(self._drivers))
            self._drivers.pop(oldest, None)

    def _driver_of(self, messages: Sequence[AnyMessage]) -> Driver:
        """Returns who gave the last message: as this process saw it, else as the message itself says.

        Other middleware may have written it anew: under another id with the same calls, or under other ids altogether.
        So one that is not known may be the newest.
        """
        _, reply = last_reply(messages)
        seen = list[Driver]()  # several where calls of several messages became one
        for id_ in _ids_in(reply):
            driver = self._drivers.get(id_)
            if driver is not None and driver not in seen:
                seen.append(driver)
        if len(seen) == 1:
            return seen[0]
        if not seen and self._newest is not None:
            seen.append(self._newest)
        stated = Driver()
        stated.note_reply([reply])
        for driver in seen:
            stated.join(driver)
        return stated

    def _ending_of(self, messages: Sequence[AnyMessage]) -> Ending:
        """Returns how the last message ended, by its own word and as it was before other middleware wrote it anew."""
        _, reply = last_reply(messages)
        ending = judge_end(reply)
        return self._driver_of(messages).ending if ending == "whole" else ending

    def _before_agent(self, state: VerdictState) -> dict[str, Any] | None:
        return None if self._observes else close_calls(state["messages"], self._gates)

    def _find_vouched(
        self, request: ToolCallRequest, call: ToolCall
    ) -> VouchedAction | ToolMessage:
        if not call["id"]:  # the tool would run, and its result would belong to no call
            return block_call(call, create_unmeasured("failed", "the call has no id"))
        verdict = verdicts_of(request.state, call).get(self.name)
        if verdict is None:
            key = self._key_of_edit(request, call)
        elif verdict["outcome"] == "approved":
            key = verdict["action_key"]
        else:
            return block_call(call, verdict)
        if key is None:
            return not_vouched_for(call, request.state["messages"])
        return VouchedAction(key, frozenset({call["id"]}))

    def _key_of_edit(self, request: ToolCallRequest, call: ToolCall) -> str | None:
        """Returns the key of the model's own call, if a trusted person made this one of it and it was free to run."""
        messages = request.state["messages"]
        proposed = proposal_of(call, messages)
        if not self._trust_edits or proposed is None or not is_edited(call, request.state):
            return None
        verdict = verdicts_of(request.state, proposed).get(self.name)
        if verdict is not None:
            return verdict["action_key"] if verdict["outcome"] == "approved" else None
        if self._gated.has(request.override(tool_call=proposed)):
            return None
        _, reply = last_reply(messages)
        return new_action(self.name, reply.id, call["id"])

    def _was_judged(self, request: ToolCallRequest) -> bool:
        proposed = proposal_of(request.tool_call, request.state["messages"])
        return proposed is not None and self.name in verdicts_of(request.state, proposed)

    def _after_model(
        self, state: VerdictState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        asks = self._about_answer(state)
        if asks is not None and not self._observes:  # that judges the end of the run once
            verdict = yield from self._review(asks, state["messages"], get_config())
            return self._decide_answer(state, verdict)

        proposed = ProposedCalls(state, self._gates)
        judged = self._calls_to_judge(proposed, runtime)
        if judged and self._on_uncertain == "interrupt":
            return (yield from self._settle_with_person(state, proposed, runtime))
        verdicts = dict[str | None, Verdict]()
        # one after another, so that each finds its own run if the group's graph is resumed
        for call in judged:
            verdict = yield from self._review_call(proposed.request(call, runtime))
            if self._observes:
                verdict = {**verdict, "mark": ""}  # it vouches for nothing
                self._emit(runtime, call["name"], verdict)
            verdicts[call["id"]] = verdict
        return self._update(state, proposed, verdicts)

    def _emit(self, runtime: Runtime[Any], tool: str | None, verdict: Verdict) -> None:
        event = {
            "event": "gate_observed",
            "gate": self.name,
            "tool": tool,
            "outcome": verdict["outcome"],
            "cause": verdict["cause"],
        }
        runtime.stream_writer(event)

    def _settle_with_person(
        self, state: VerdictState, proposed: ProposedCalls, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        """Judges the calls, asks a person about the uncertain ones, and returns the update of the agent's state."""
        start = ReviewState(
            edits={},
            verdicts={},
            answers={},
            is_asked_anew=self._is_asked_anew(state, proposed),
            asks_again=False,
            gives_up=False,
        )
        settled = yield invoke(self._steps(proposed, runtime), start, get_config())
        if settled["asks_again"]:  # from another checkpoint on, what was replied is over
            return {
                **(self._update(state, proposed, settled["verdicts"]) or {}),
                "jump_to": "model",
            }

        proposed.replace(settled["edits"])
        answers = [*settled["answers"].values()]
        if not settled.get("gives_up"):
            return self._update(state, proposed, settled["verdicts"], answers)

        last = AIMessage(
            f"I stop here: {NOT_SHARED}.",
            id=str(uuid.uuid4()),
            response_metadata={WITHHELD_MARK: True},
        )
        return {
            "messages": [*answers, last],
            "coe_answers": {"": _mark_of("", {}, [last])},
            "jump_to": "end",
        }

    def _review_call(self, request: ToolCallRequest) -> Steps[Verdict]:
        """Asks the group about a call, and returns its verdict, marked."""
        messages = request.state["messages"]
        asks = partial(self._about_call, request)
        verdict = yield from self._review(asks, messages, request.runtime.config)
        _, reply = last_reply(messages)
        return mark_verdict(verdict, self.name, request.tool_call, reply.id)

    def _review(
        self, asks: Asks, messages: Sequence[AnyMessage], config: RunnableConfig
    ) -> Steps[Verdict]:
        """Asks the group about the last message, and returns its verdict; a failure to ask is the verdict "failed"."""
        try:
            question = asks()
            if isinstance(question, dict):
                return question
            shown = visible(question)
            review: dict[str, Any] = {"question": shown}
            if self._approves is None:
                review["choices"] = list(REVIEW_CHOICES)
            else:
                review["is_review"] = (
                    True  # a function of the user's own reads what the graph extracts
                )
            with without_votes(self._driver_of(messages).is_of):
                result = yield invoke(self._graph, review, config)
            verdict = read_verdict(result, self._approves, shown)
        except Exception as error:
            # LangGraph handles interrupts inside the graph, and replies that it cannot use
            if is_control_flow(error):
                raise
            kind = type(error).__name__
            logger.warning("the gate is closed: asking the group failed with %s", kind)
            # only the type: the text of an error may reveal what the driving model must not read
            return create_unmeasured("failed", f"asking it failed with {kind}", cause="unavailable")

        if are_all_failed(verdict):
            whys = [f"{name} failed: {why}" for name, why in verdict["failed_judges"].items()]
            logger.warning("the gate is closed: no judge gave a vote: %s", for_log("; ".join(whys)))
        return verdict

    def _about_call(self, request: ToolCallRequest) -> str | Verdict:
        messages = request.state["messages"]
        _, reply = last_reply(messages)
        ending = self._ending_of(messages)
        if ending != "whole":
            reason = f"the model's message does not count: {IN_WORDS[ending]}"
            return create_unmeasured("failed", reason)
        if self._question is not None:
            question: object = self._question(request)
            if inspect.iscoroutine(question):
                question.close()
            if not isinstance(question, str):
                raise TypeError(
                    f'"question" must return a string; got {type(question).__name__}. Write a plain function'
                )
            return question

        approved = set[str | None]()
        for call in reply.tool_calls:
            verdict = verdicts_of(request.state, call).get(self.name)
            if verdict is not None and verdict["outcome"] == "approved":
                approved.add(call["id"])
        return about_call(request, approved, include_results=self._include_results)

    def _calls_to_judge(
        self, proposed: ProposedCalls, runtime: Runtime[Any], known: Collection[str] = ()
    ) -> list[ToolCall]:
        """Returns the calls that need a verdict; one without an id can have none.

        `known` are the ids of those that have had one, before a person edited them.
        """
        driver = self._drivers.get(proposed.reply.id or "", Driver())
        judged = []
        for call in proposed.calls:
            if not call["id"] or not self._gates(call["name"]):
                continue
            tool = driver.tool(call["name"])
            if call["id"] in known or self._gated.has(proposed.request(call, runtime), tool):
                judged.append(call)
        return judged

    def _update(
        self,
        state: VerdictState,
        proposed: ProposedCalls,
        verdicts: Mapping[str | None, Verdict],
        answers: Sequence[ToolMessage] = (),
    ) -> dict[str, Any] | None:
        if not (verdicts or answers or proposed.is_changed):
            return None
        message_id = proposed.reply.id
        known = state.get("coe_verdicts", {})
        kept: dict[str, dict[str, Verdict]] = {}
        for call in proposed.calls:
            key = fingerprint(call, message_id)
            # of the other verdicts, only those of another gate on the same calls
            if key in known:
                kept[key] = known[key]
            verdict = verdicts.get(call["id"])
            if verdict is None:
                continue
            if call["id"] in proposed.duplicates and not self._observes:
                failed: Verdict = {
                    **verdict,
                    "outcome": "failed",
                    "cause": "invalid",
                    "reason": SAME_ID,
                }
                verdict = mark_verdict(failed, self.name, call, message_id)
            kept[key] = {**kept.get(key, {}), self.name: verdict}

        if self._observes:
            return {VERDICTS: kept}
        update: dict[str, Any] = {VERDICTS: kept, DUPLICATES: proposed.duplicates}
        changed = [proposed.reply] if proposed.is_changed else []
        if changed or answers:
            update["messages"] = [*changed, *answers]
        return update

    def after_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Withholds the final answer unless the group has approved exactly this answer."""
        return run_steps(self._after_agent(state, runtime))

    async def aafter_agent(
        self, state: VerdictState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Withholds the end of the run unless approved; see `after_agent`."""
        return await arun_steps(self._after_agent(state, runtime))

    def _after_agent(
        self, state: VerdictState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        asks = self._about_end(state)
        if asks is None:
            return None
        verdict = yield from self._review(asks, state["messages"], get_config())
        if self._observes:
            self._emit(runtime, None, verdict)
            return None
        return self._decide_answer(state, verdict)

    def _steps(self, proposed: ProposedCalls, runtime: Runtime[Any]) -> Runnable[Any, Any]:
        """Returns the graph that settles a message's calls: the group judges, a person decides, the group judges edits.

        It is a graph of its own so that a run resumed after the interrupt finds the verdicts.
        """
        message_id = proposed.reply.id

        def marked(state: ReviewState) -> dict[str | None, Verdict]:
            """Returns the verdicts that this gate wrote, by the calls' ids."""
            proposed.replace(state["edits"])
            verdicts = dict[str | None, Verdict]()
            for call in proposed.calls:
                verdict = state["verdicts"].get(call["id"] or "")
                if verdict and has_mark(verdict, self.name, call, message_id):
                    verdicts[call["id"]] = verdict
            return verdicts

        def judge(state: ReviewState, _: RunnableConfig) -> Steps[dict[str, Any]]:
            written = set[str | None]()
            judged = dict[str | None, Verdict]()
            for id_, verdict in marked(state).items():
                if verdict["decided_by"] == "person" and verdict["outcome"] == "uncertain":
                    written.add(id_)
                else:
                    judged[id_] = verdict
            known = {}
            for call in proposed.calls:
                if call["id"] in judged:
                    known[fingerprint(call, message_id)] = {self.name: judged[call["id"]]}

            verdicts = {**state["verdicts"]}
            for call in self._calls_to_judge(proposed, runtime, state["verdicts"]):
                id_ = call["id"] or ""
                if id_ in judged or id_ in state["answers"]:
                    continue
                verdict = yield from self._review_call(proposed.request(call, runtime, known))
                if verdict["outcome"] == "uncertain" and id_ in written:
                    allowed = by_person(verdict, "approved", f"{WRITTEN}; {in_words(verdict)}")
                    verdict = mark_verdict(allowed, self.name, call, message_id)
                verdicts[id_] = verdict
            return {"verdicts": verdicts}

        def ask(state: ReviewState) -> dict[str, Any]:
            driver = self._drivers.get(message_id or "", Driver())
            return ask_about_calls(proposed, state, self.name, marked(state), driver)

        def after_person(state: ReviewState) -> str:
            return END if state["asks_again"] else "judge_edits"

        steps = StateGraph(ReviewState)
        steps.add_node("judge", steps_node(judge, name="judge"))
        steps.add_node("person", BriefNode(ask))
        steps.add_node("judge_edits", steps_node(judge, name="judge_edits"))
        steps.add_edge(START, "judge")
        steps.add_edge("judge", "person")
        steps.add_conditional_edges("person", after_person)
        steps.add_edge("judge_edits", END)
        return steps.compile()

    def _about_answer(self, state: VerdictState) -> Asks | None:
        """Returns the maker of the question about the final answer; None before the agent has answered.

        A structured answer beside calls is the end of the run only when those have been made.
        """
        place, reply = last_reply(state["messages"])
        if not self._judges_answers or place == len(state["messages"]):
            return None
        structured = state.get("structured_response")
        # without one, a message with calls is no answer, even if something else replied to all of them
        if reply.tool_calls and (structured is None or ProposedCalls(state, self._gates).calls):
            return None
        ending = self._ending_of(state["messages"])
        return partial(about_answer, reply, structured, state["messages"][:place], ending=ending)

    def _about_end(self, state: VerdictState) -> Asks | None:
        """Returns the maker of the question about the end of the run; None if that is decided already."""
        messages = state["messages"]
        place, reply = last_reply(messages)
        if not self._judges_answers or place == len(messages):
            return None
        decided = state.get("coe_answers", {})
        for gate in (self.name, ""):
            if is_mark(decided.get(gate), _mark_of(gate, state, messages)):
                return None

        after = messages[place + 1 :]
        if not after:
            asks = self._about_answer(state)
            if asks is not None:
                return asks
        structured = state.get("structured_response")
        ids = {call["id"] for call in reply.tool_calls}
        results = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
        if structured is not None and results <= ids and len(results) == len(after):
            ending = self._ending_of(messages)
            return partial(about_answer, reply, structured, messages[:place], after, ending=ending)

        last = messages[-1]
        what = f"a message of type {last.type!r}"
        if isinstance(last, ToolMessage):
            what = f"the result of {last.name}"
        reason = f"the run ends with {what}, which the group is not shown"
        return partial(create_unmeasured, "uncertain", reason)

    def _decide_answer(self, state: VerdictState, verdict: Verdict) -> dict[str, Any]:
        """Gives the answer or withholds it, and records what was decided."""
        messages = state["messages"]
        if verdict["outcome"] == "approved":
            mark = _mark_of(self.name, state, messages)
            return {"coe_answers": {**state.get("coe_answers", {}), self.name: mark}}

        place, reply = last_reply(messages)
        after = messages[place + 1 :]
        is_structured = state.get("structured_response") is not None
        # that calls were made stays known, lest the agent makes them again; the first reply is the structured answer's
        results = after[1:] if is_structured else after
        kept = [message for message in results if isinstance(message, ToolMessage)]
        ids = {result.tool_call_id for result in kept}
        calls = [call for call in reply.tool_calls if call["id"] in ids]
        silent = _without_answer(verdict)
        withheld = AIMessage(
            f"I withhold my answer: {in_words(silent)}.",
            id=str(uuid.uuid4()) if calls else reply.id,
            response_metadata={"coe_verdict": silent, WITHHELD_MARK: True},
        )

        now = list[Any]()
        if calls:
            now.append(AIMessage("", id=reply.id, tool_calls=calls))
            hidden = {"content": "The result is withheld.", "artifact": None}
            now += [result.model_copy(update=hidden) for result in kept]
        else:
            kept = []
        removed = [
            RemoveMessage(message.id) for message in after if message.id and message not in kept
        ]
        now += [*removed, withheld]
        update: dict[str, Any] = {
            "messages": now,
            "coe_answers": {"": _mark_of("", {}, [withheld])},
            "jump_to": "end",
        }
        if is_structured:
            update["structured_response"] = None
        return update


def _ids_in(message: BaseMessage) -> list[str]:
    """Returns the ids by which a message is known again: its own, and those of its calls."""
    ids = [message.id]
    if isinstance(message, AIMessage):
        ids += [call["id"] for call in message.tool_calls]
    return list(filter(None, ids))


def block_call(call: ToolCall, verdict: Verdict) -> ToolMessage:
    """Returns the message for the driving model instead of the tool's result."""
    advice = UNREPEATED
    if are_all_failed(verdict):
        advice = NOT_JUDGED
    elif is_unopposed(verdict):
        advice = NO_OBJECTION
    without_question = {**verdict, "question": None}  # it is in the private state
    return not_run(call, in_words(verdict), advice=advice, artifact=without_question)


def _without_answer(verdict: Verdict) -> Verdict:
    """Returns a verdict that repeats nothing of the answer: no question, no replies, no reason that quotes them."""
    silent: Verdict = {**verdict, "question": None, "votes": {}, "answer": None}
    # a provider's error may quote what it was asked
    silent["failed_judges"] = {name: kind_of(why) for name, why in verdict["failed_judges"].items()}
    for vote in verdict["votes"].values():
        if not vote.keys() <= {*REVIEW_CHOICES}:
            silent["reason"] = (
                'not all replies are "approve" or "reject", and they may repeat the answer'
            )
    return silent


def _mark_of(gate: str, state: Mapping[str, Any], messages: list[AnyMessage]) -> str:
    """Returns the mark of a run's end: the model's last message, what follows it, and a structured answer."""
    place, _ = last_reply(messages)
    end = []
    for message in messages[place:]:
        content = repr(message.content)
        end.append([message.type, message.id, content, repr(message.additional_kwargs)])
    structured = state.get("structured_response")
    whole = (end, None if structured is None else structured_text(structured))
    digest = hashlib.sha256(repr(whole).encode(errors="replace")).hexdigest()
    return make_mark("answer", gate, None, (), digest)
