"""Owns the step that judges tool calls: after the model, before a person is asked or a tool runs."""

import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, get_args

from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime

from coe_agents._steps import Steps, arun_steps, invoke, run_steps
from coe_agents.checks import one_of, require
from coe_agents.errors import is_control_flow
from coe_agents.graph.people import fence
from coe_agents.graph.runnables import check_compiled
from coe_agents.middleware.guard import GuardsTools, check_names, is_edited, proposal_of, refuse
from coe_agents.middleware.once import VouchedAction, new_action
from coe_agents.middleware.reviewer import about_call
from coe_agents.middleware.unanswered import close_calls
from coe_agents.middleware.verdict import (
    VERDICTS,
    Verdict,
    call_as_json,
    create_unmeasured,
    fingerprint,
    in_words,
    last_reply,
    mark_verdict,
    read_verdict,
    verdict_of,
    verdicts_of,
)
from coe_agents.middleware.withheld import not_run
from coe_agents.prompts import REVIEW_CHOICES
from coe_agents.text import visible

logger = logging.getLogger(__name__)

OnError = Literal["block", "raise"]
Asks = Callable[[], str | Verdict]
"""Returns the question for the group, or a verdict where there is nothing to ask."""

DUPLICATES = "coe_duplicates"
"""The key of the agent's private state that holds the new ids of calls that had the id of an earlier one."""
SAME_ID = "another call of the same message has its id"


_NO_MARKUP = re.compile(r"""([^\W_]|(?<=[^\W_])_(?=[^\W_])|(?<!www)\.|[ "{}:,;()%'=+>-])*""")
"""A line that Markdown shows as it is, and turns no part of into a link."""


class VerdictState(AgentState[Any]):
    """The agent's state with the verdicts, which neither its input nor its output holds."""

    coe_verdicts: NotRequired[Annotated[dict[str, dict[str, Verdict]], PrivateStateAttr]]
    coe_duplicates: NotRequired[Annotated[list[str], PrivateStateAttr]]
    coe_answers: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr]
    ]  # the mark of the decided end, by gate; "": of a withheld one


class CoEVerdicts(GuardsTools[VerdictState]):
    """Has the group judge calls of the named tools, and stops none but those that were changed since.

    It is for LangChain's `HumanInTheLoopMiddleware`, which must be listed *before* it, so that it runs after it: its
    `when` and `description` then know the verdict. Calls that lack approval go to a person, the others run.

        asks = {"allowed_decisions": ["approve", "reject"], "when": lacks_approval, "description": describe_call}
        person, verdicts = HumanInTheLoopMiddleware({"pay": asks}), CoEVerdicts(graph, tools=["pay"])
        agent = create_agent(model, [pay], middleware=[person, verdicts])

    The verdicts are kept in private state, so that the group is not asked again when the run is resumed.

    Args:
        graph: A compiled graph of `create_coe_graph`, without a checkpointer of its own.
        tools: The names of the tools whose calls are judged.
        question: From a call to the question; its `tool` is None, as the call is judged before the tools are reached.
            By default `coe_agents.prompts.review_tool_call`, with the conversation, the calls of this turn
            that were made already, and the other calls of the same message. It must ask for "approve" or "reject",
            unless `approves` is given.
        approves: Whether the group's answer approves. By default each judge's raw reply, without the reasoning
            block that opens it, must be "approve" or "reject" alone (`clustering.answers.parse_choice`); anything
            else counts as a third reply, which approves nothing. The graph's clusterer and canonical answers are not
            used then, and a `ModelAgent` gives the exact probabilities of the two words where its model can.
        on_error: The effect of a failure to ask; "block": the verdict "failed"; "raise": the exception.
        include_results: Whether the default question also shows what the calls of this turn returned, which anyone may
            have written.
        trust_edits: Whether a call that a person edited in a `HumanInTheLoopMiddleware` may run as edited, which
            nobody judged. Otherwise the model is told to propose it again, as after a change by any middleware.
        name: Distinguishes several of them in one agent; by default the name of the class.

    Raises:
        TypeError: If the graph is not compiled, or `tools` does not hold names.
        ValueError: If the graph has a checkpointer, or there is nothing to judge.
    """

    state_schema = VerdictState
    _judges_answers = False

    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        tools: Collection[str],
        question: Callable[[ToolCallRequest], str] | None = None,
        approves: Callable[[str], bool] | None = None,
        on_error: OnError = "block",
        include_results: bool = False,
        trust_edits: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self._gated, must = check_names(tools), '"tools" must name at least one tool'
        require(bool(tools) or self._judges_answers, must, tools, 'Write tools=["transfer_money"]')
        one_of(on_error, '"on_error"', get_args(OnError), advice='"block" is safe')
        self._graph = check_compiled(graph)
        self._question, self._approves, self._on_error = question, approves, on_error
        self._include_results, self._trust_edits = include_results, trust_edits

    def before_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls on which the user, asked to decide, wrote another message instead: they were not run."""
        return close_calls(state["messages"], self._gated)

    async def abefore_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls without a decision; see `before_agent`."""
        return close_calls(state["messages"], self._gated)

    def after_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group about each call of the model's last message that is to be judged."""
        return run_steps(self._after_model(state, runtime))

    async def aafter_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group; see `after_model`."""
        return await arun_steps(self._after_model(state, runtime))

    def _gates(self, name: str) -> bool:
        return name in self._gated

    def _find_vouched(self, request: ToolCallRequest, call: ToolCall) -> VouchedAction | ToolMessage:
        if not call["id"]:  # the tool would run, and its result would belong to no call
            return block_call(call, create_unmeasured("failed", "the call has no id"))
        messages = request.state["messages"]
        verdict = verdicts_of(request.state, call).get(self.name)
        if verdict is not None and not self._lets_pass(verdict):
            return block_call(call, verdict)
        key = self._key_of_edit(request, call) if verdict is None else verdict["action_key"]
        return refuse(call, messages) if key is None else VouchedAction(key, frozenset({call["id"]}))

    def _lets_pass(self, verdict: Verdict) -> bool:
        """Returns whether a call with this verdict may run; a person has seen those without approval."""
        return True

    def _key_of_edit(self, request: ToolCallRequest, call: ToolCall) -> str | None:
        """Returns the key of the model's own call, if a trusted person made this one of it and it was free to run."""
        messages = request.state["messages"]
        found, proposed = last_reply(messages), proposal_of(call, messages)
        if not self._trust_edits or found is None or proposed is None or not is_edited(call, request.state):
            return None
        if not self._gates(proposed["name"]):
            return new_action(self.name, found[1].id, call["id"])
        verdict = verdicts_of(request.state, proposed).get(self.name)
        return verdict["action_key"] if verdict is not None and self._lets_pass(verdict) else None

    def _after_model(self, state: VerdictState, runtime: Runtime[Any]) -> Steps[dict[str, Any] | None]:
        pending = Pending(state, self._gated)
        verdicts = dict[str | None, Verdict]()
        # one after another, so that each finds its own run if the group's graph is resumed
        for call in self._judged(pending):
            verdicts[call["id"]] = yield from self._review_call(pending.request(call, runtime))
        return self._update(state, pending, verdicts)

    def _review_call(self, request: ToolCallRequest) -> Steps[Verdict]:
        """Asks the group about a call, and returns its verdict, marked."""
        verdict = yield from self._review(lambda: self._about_call(request), request.runtime.config)
        found = last_reply(request.state["messages"])
        return mark_verdict(verdict, self.name, request.tool_call, None if found is None else found[1].id)

    def _review(self, asks: Asks, config: RunnableConfig) -> Steps[Verdict]:
        """Asks the group, and returns its verdict; a failure to ask is the verdict "failed"."""
        try:
            asked = asks()
            if isinstance(asked, dict):
                return asked
            shown = visible(asked)
            # a reading of the user's own reads answers, which the graph extracts
            kind = {"is_review": True} if self._approves is not None else {"choices": list(REVIEW_CHOICES)}
            result = yield invoke(self._graph, {"question": shown, **kind}, config)
            return read_verdict(result, self._approves, shown)
        except Exception as error:
            # LangGraph handles interrupts inside the graph, and replies that it cannot use
            if self._on_error == "raise" or is_control_flow(error):
                raise
            logger.warning("the gate is closed: asking the group failed with %s", type(error).__name__)
            # only the type: the text of an error may reveal what the driving model must not read
            return create_unmeasured("failed", f"asking it failed with {type(error).__name__}")

    def _about_call(self, request: ToolCallRequest) -> str | Verdict:
        if self._question is not None:
            asked: object = self._question(request)
            if inspect.iscoroutine(asked):
                asked.close()
            if not isinstance(asked, str):
                raise TypeError(f'"question" must return a string; got {type(asked).__name__}. Write a plain function')
            return asked
        found = last_reply(request.state["messages"])
        calls = [] if found is None else found[1].tool_calls
        verdicts = {call["id"]: verdicts_of(request.state, call).get(self.name) for call in calls}
        approved = {id_ for id_, verdict in verdicts.items() if verdict and verdict["outcome"] == "approved"}
        return about_call(request, approved, include_results=self._include_results)

    def _judged(self, pending: "Pending") -> list[ToolCall]:
        """Returns the calls that need a verdict; one without an id can have none."""
        return [call for call in pending.calls if call["name"] in self._gated and call["id"]]

    def _update(
        self,
        state: VerdictState,
        pending: "Pending",
        verdicts: Mapping[str | None, Verdict],
        answers: Sequence[ToolMessage] = (),
    ) -> dict[str, Any] | None:
        if pending.reply is None or not (verdicts or answers or pending.is_changed):
            return None
        # of the other verdicts, only those of another gate on the same calls
        known = state.get("coe_verdicts", {})
        current = {fingerprint(call, pending.reply.id): call for call in pending.calls}
        kept = {key: known[key] for key in current if key in known}
        for key, call in current.items():
            if (verdict := verdicts.get(call["id"])) is not None:
                if call["id"] in pending.duplicates:
                    failed: Verdict = {**verdict, "outcome": "failed", "reason": SAME_ID}
                    verdict = mark_verdict(failed, self.name, call, pending.reply.id)
                kept[key] = {**kept.get(key, {}), self.name: verdict}
        changed = [pending.reply] if pending.is_changed else []
        update: dict[str, Any] = {VERDICTS: kept, DUPLICATES: pending.duplicates}
        return {**update, "messages": [*changed, *answers]} if changed or answers else update


class Pending:
    """The calls of the model's last message that nothing has replied to yet, each with an id of its own.

    Attributes:
        reply: The message; None before there is one.
        calls: Its calls without a reply.
        duplicates: The new ids of gated calls that had the id of an earlier call.
        is_changed: Whether the message is not the one in the state.
    """

    def __init__(self, state: VerdictState, gated: Collection[str]) -> None:
        """Reads them from the state; an id that a gated call shares stays with the first call that has it.

        An ungated call that loses it still runs, and a gated one does not.
        """
        self._state, self.is_changed = state, False
        self.reply: AIMessage | None = None
        self.calls, self.duplicates = list[ToolCall](), list[str]()
        if (found := last_reply(state["messages"])) is None:
            return
        place, self.reply = found
        after, known = state["messages"][place + 1 :], state.get("coe_duplicates", ())
        answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
        self.calls = [call for call in self.reply.tool_calls if call["id"] not in answered]
        self.duplicates = [call["id"] for call in self.calls if call["id"] and call["id"] in known]
        shared = {call["id"] for call in self.calls if call["name"] in gated}
        seen, renamed = set[str | None](), dict[int, ToolCall]()
        for index, call in enumerate(self.reply.tool_calls):
            id_ = call["id"]
            if id_ and id_ in seen & shared:
                # deterministic: a resumed run repeats this
                digest = hashlib.sha256(f"{self.reply.id} {index} {id_}".encode(errors="replace")).hexdigest()
                id_ = f"call_{digest[:24]}"
                renamed[index] = {**call, "id": id_}
                if call["name"] in gated:
                    self.duplicates.append(id_)
            seen.add(id_)
        if renamed:
            self.replace(renamed)

    def replace(self, calls: Mapping[int, ToolCall]) -> None:
        """Replaces the calls at these places of the message."""
        if self.reply is None:
            return
        former = self.reply.tool_calls
        now = [calls.get(index, call) for index, call in enumerate(former)]
        ids = {call["id"] for call in self.calls}
        changed = {new["id"] for new, old in zip(now, former, strict=True) if new != old}
        self.reply = self.reply.model_copy(update={"tool_calls": now})
        self.calls = [call for call in now if call["id"] in ids | changed]
        self.is_changed = True

    def request(
        self, call: ToolCall, runtime: Runtime[Any], verdicts: Mapping[str, dict[str, Verdict]] | None = None
    ) -> ToolCallRequest:
        """Returns the request for one of the calls, as it would reach its tool; `verdicts` take the state's place."""
        messages = self._state["messages"]
        if self.is_changed and self.reply is not None:
            messages = [self.reply if message.id == self.reply.id else message for message in messages]
        state: dict[str, Any] = {**self._state, "messages": messages}
        if verdicts is not None:
            state[VERDICTS] = verdicts
        return ToolCallRequest(
            tool_call=call,
            tool=None,
            state=state,
            runtime=ToolRuntime(
                state=state,
                context=runtime.context,
                config=get_config(),
                stream_writer=runtime.stream_writer,
                tool_call_id=call["id"],
                store=runtime.store,
            ),
        )


def block_call(call: ToolCall, verdict: Verdict) -> ToolMessage:
    """Returns the message for the driving model instead of the tool's result."""
    silent = {**verdict, "question": None, "votes": {}}  # they are in the private state
    return not_run(call["name"], call["id"] or "", in_words(verdict), artifact=silent)


def lacks_approval(request: ToolCallRequest) -> bool:
    """Returns whether the group did not approve a call, or was not asked: `when` of a `HumanInTheLoopMiddleware`."""
    verdict = verdict_of(request.state, request.tool_call)
    return verdict is None or verdict["outcome"] != "approved"


def describe_call(call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:
    """Returns the call and the group's verdict on it: `description` of a `HumanInTheLoopMiddleware`.

    Invisible characters in it are escaped (`coe_agents.text.visible`). A text that Markdown would show otherwise,
    such as an image or a comment in the arguments, is a block of code.
    """
    verdict = verdict_of(state, call)
    lines = [
        f"{call['name']} {call_as_json(call['args'])}",
        "the group was not asked" if verdict is None else in_words(verdict),
    ]
    text = "\n".join(lines)
    return visible(text) if all(map(_NO_MARKUP.fullmatch, lines)) else fence(text)
