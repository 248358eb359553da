"""Owns the step that judges tool calls: after the model, before a person is asked or a tool runs."""

import inspect
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, get_args

from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime

from coe_agents._steps import Steps, invoke
from coe_agents.agents._requests.endings import IN_WORDS, judge_end
from coe_agents.checks import one_of
from coe_agents.errors import is_control_flow
from coe_agents.graph.people import fence
from coe_agents.graph.runnables import check_compiled
from coe_agents.middleware.guard import GuardsTools, is_edited, proposal_of, refuse
from coe_agents.middleware.once import VouchedAction, new_action
from coe_agents.middleware.open_calls import DUPLICATES, ProposedCalls, close_calls
from coe_agents.middleware.reviewer import about_call
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
        ValueError: If the graph has a checkpointer, or there is nothing to judge; at the first tool call if the agent
            lacks a named tool, since a misspelt name would have nothing judged.
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
        super().__init__(name, tools, may_gate_none=self._judges_answers)
        one_of(on_error, '"on_error"', get_args(OnError), advice='"block" is safe')
        self._graph = check_compiled(graph)
        self._question, self._approves, self._on_error = question, approves, on_error
        self._include_results, self._trust_edits = include_results, trust_edits

    def _before_agent(self, state: VerdictState) -> dict[str, Any] | None:
        return close_calls(state["messages"], self._gated)

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
        proposed = ProposedCalls(state, self._gated)
        verdicts = dict[str | None, Verdict]()
        # one after another, so that each finds its own run if the group's graph is resumed
        for call in self._judged(proposed):
            verdicts[call["id"]] = yield from self._review_call(proposed.request(call, runtime))
        return self._update(state, proposed, verdicts)

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
        found = last_reply(request.state["messages"])
        if found is not None and (ending := judge_end(found[1])) != "whole":
            return create_unmeasured("failed", f"the model's message does not count: {IN_WORDS[ending]}")
        if self._question is not None:
            asked: object = self._question(request)
            if inspect.iscoroutine(asked):
                asked.close()
            if not isinstance(asked, str):
                raise TypeError(f'"question" must return a string; got {type(asked).__name__}. Write a plain function')
            return asked
        calls = [] if found is None else found[1].tool_calls
        verdicts = {call["id"]: verdicts_of(request.state, call).get(self.name) for call in calls}
        approved = {id_ for id_, verdict in verdicts.items() if verdict and verdict["outcome"] == "approved"}
        return about_call(request, approved, include_results=self._include_results)

    def _judged(self, proposed: ProposedCalls) -> list[ToolCall]:
        """Returns the calls that need a verdict; one without an id can have none."""
        return [call for call in proposed.calls if call["name"] in self._gated and call["id"]]

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


def block_call(call: ToolCall, verdict: Verdict) -> ToolMessage:
    """Returns the message for the driving model instead of the tool's result."""
    silent = {**verdict, "question": None, "votes": {}}  # they are in the private state
    return not_run(call, in_words(verdict), artifact=silent)


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
