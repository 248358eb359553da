"""Owns the step that judges tool calls: after the model, before a person is asked or a tool runs."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime

from coe_agents.middleware.reviewer import Asks, OnError, Reviewer
from coe_agents.middleware.unanswered import close_calls
from coe_agents.middleware.verdict import (
    VERDICTS,
    Verdict,
    call_as_json,
    fence,
    fingerprint,
    in_words,
    verdict_of,
    verdicts_of,
)
from coe_agents.prompts import visible

DUPLICATES = "coe_duplicates"
"""The key of the agent's private state that holds the new ids of calls that had the id of an earlier one."""


_NO_MARKUP = re.compile(r"""([^\W_]|(?<=[^\W_])_(?=[^\W_])|(?<!www)\.|[ "{}:,;()%'=+>-])*""")
"""A line that Markdown shows as it is, and turns no part of into a link."""


class VerdictState(AgentState[Any]):
    """The agent's state with the verdicts, which neither its input nor its output holds."""

    coe_verdicts: NotRequired[Annotated[dict[str, dict[str, Verdict]], PrivateStateAttr]]
    coe_duplicates: NotRequired[Annotated[list[str], PrivateStateAttr]]
    coe_answers: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr]
    ]  # the decided end, by gate; "": a withheld one


class CoEVerdicts(AgentMiddleware[VerdictState, Any, Any]):
    """Has the group judge calls of the named tools, without stopping any.

    It is for LangChain's `HumanInTheLoopMiddleware`, which must be listed *before* it, so that it runs after it: its
    `when` and `description` then know the verdict. Calls that lack approval go to a person, the others run.

        middleware=[
            HumanInTheLoopMiddleware(
                {
                    "transfer_money": {
                        "allowed_decisions": ["approve", "reject"],
                        "when": lacks_approval,
                        "description": describe_call,
                    }
                }
            ),
            CoEVerdicts(graph, tools=["transfer_money"]),
        ]

    The verdicts are kept in private state, so that the group is not asked again when the run is resumed.

    Args:
        graph: A compiled graph of `create_coe_graph`, without a checkpointer of its own.
        tools: The names of the tools whose calls are judged.
        question: From a call to the question; its `tool` is None, as the call is judged before the tools are reached.
            By default `coe_agents.prompts.review_tool_call`, with the conversation, the calls of this turn
            that were made already, and the other calls of the same message. It must ask for "approve" or "reject",
            unless `approves` is given.
        approves: Whether the group's answer approves. By default each judge's raw reply, without the reasoning
            block that opens it, must be "approve" or "reject" alone (`coe_agents.clustering.parse_choice`); anything
            else counts as a third reply, which approves nothing. The graph's clusterer and canonical answers are not
            used then, and a `ModelAgent` gives the exact probabilities of the two words where its model can.
        on_error: The effect of a failure to ask; "block": the verdict "failed"; "raise": the exception.
        include_results: Whether the default question also shows what the calls of this turn returned, which anyone may
            have written.
        name: Distinguishes several of them in one agent; by default the name of the class.

    Raises:
        TypeError: If the graph is not compiled, or `tools` does not hold names.
        ValueError: If the graph has a checkpointer, or there is nothing to judge.
    """

    state_schema = VerdictState

    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        tools: Collection[str],
        question: Callable[[ToolCallRequest], str] | None = None,
        approves: Callable[[str], bool] | None = None,
        on_error: OnError = "block",
        include_results: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(tools, str) or not all(isinstance(tool, str) for tool in tools):
            raise TypeError(f'"tools" must be a list of names of tools; got {tools!r}. Write tools=["transfer_money"]')
        self._gated = frozenset(tools)
        self._check_gated()
        self._reviewer = Reviewer(
            graph, question=question, approves=approves, on_error=on_error, include_results=include_results
        )
        self._name = name or type(self).__name__

    def _check_gated(self) -> None:
        if not self._gated:
            raise ValueError('"tools" must name at least one tool; got none. Write tools=["transfer_money"]')

    @property
    def name(self) -> str:
        """The name, by which create_agent tells middleware apart."""
        return self._name

    def before_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls on which the user, asked to decide, wrote another message instead: they were not run."""
        return close_calls(state["messages"], self._gated)

    async def abefore_agent(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answers calls without a decision; see `before_agent`."""
        return close_calls(state["messages"], self._gated)

    def after_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group about each call of the model's last message that is to be judged."""
        pending = Pending.of(state, self._gated)
        # one after another, so that each finds its own run if the group's graph is resumed
        verdicts = {call["id"]: self._ask(pending.request(call, runtime)) for call in self._judged(pending)}
        return self._update(state, pending, verdicts)

    async def aafter_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group; see `after_model`."""
        pending = Pending.of(state, self._gated)
        verdicts = {call["id"]: await self._aask(pending.request(call, runtime)) for call in self._judged(pending)}
        return self._update(state, pending, verdicts)

    def _ask(self, request: ToolCallRequest, before: Collection[str | None] = ()) -> Verdict:
        return self._reviewer.ask(self._about(request, before), request.runtime.config)

    async def _aask(self, request: ToolCallRequest, before: Collection[str | None] = ()) -> Verdict:
        return await self._reviewer.aask(self._about(request, before), request.runtime.config)

    def _about(self, request: ToolCallRequest, before: Collection[str | None]) -> Asks:
        """Returns the maker of the question; `before`: ids of calls of the message that may have run already."""
        found = last_reply(request.state["messages"])
        calls = [] if found is None else found[1].tool_calls
        verdicts = {call["id"]: verdicts_of(request.state, call).get(self.name) for call in calls}
        approved = {id_ for id_, verdict in verdicts.items() if verdict and verdict["outcome"] == "approved"}
        return self._reviewer.about_call(request, approved.union(before))

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
                    reason = "another call of the same message has its id"
                    verdict = {**verdict, "outcome": "failed", "reason": reason}
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

    def __init__(self, state: VerdictState, reply: AIMessage | None, after: Sequence[AnyMessage]) -> None:
        self._state, self.reply = state, reply
        answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
        self.calls = [] if reply is None else [call for call in reply.tool_calls if call["id"] not in answered]
        self.duplicates: list[str] = [
            call["id"] for call in self.calls if call["id"] and call["id"] in state.get("coe_duplicates", ())
        ]
        self.is_changed = False

    @classmethod
    def of(cls, state: VerdictState, gated: Collection[str]) -> "Pending":
        """Returns them from the state; an id that a gated call shares stays with the first call that has it.

        An ungated call that loses it still runs, and a gated one does not.
        """
        found = last_reply(state["messages"])
        if found is None:
            return cls(state, None, ())
        place, reply = found
        pending = cls(state, reply, state["messages"][place + 1 :])
        shared = {call["id"] for call in pending.calls if call["name"] in gated}
        seen = set[str | None]()
        calls = list[ToolCall]()
        for index, given in enumerate(reply.tool_calls):
            call = given
            if call["id"] and call["id"] in seen & shared:
                # deterministic: a resumed run repeats this
                digest = hashlib.sha256(f"{reply.id} {index} {call['id']}".encode(errors="replace")).hexdigest()
                call = {**call, "id": f"call_{digest[:24]}"}
                if call["name"] in gated:
                    pending.duplicates.append(call["id"] or "")
            seen.add(call["id"])
            calls.append(call)
        if calls != reply.tool_calls:
            pending.replace(dict(enumerate(calls)))
        return pending

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


def lacks_approval(request: ToolCallRequest) -> bool:
    """Returns whether the group did not approve a call, or was not asked: `when` of a `HumanInTheLoopMiddleware`."""
    verdict = verdict_of(request.state, request.tool_call)
    return verdict is None or verdict["outcome"] != "approved"


def describe_call(call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:
    """Returns the call and the group's verdict on it: `description` of a `HumanInTheLoopMiddleware`.

    Invisible characters in it are escaped (`coe_agents.prompts.visible`). A text that Markdown would show otherwise,
    such as an image or a comment in the arguments, is a block of code.
    """
    verdict = verdict_of(state, call)
    lines = [
        f"{call['name']} {call_as_json(call['args'])}",
        "the group was not asked" if verdict is None else in_words(verdict),
    ]
    text = "\n".join(lines)
    return visible(text) if all(map(_NO_MARKUP.fullmatch, lines)) else fence(text)


def last_reply(messages: Sequence[AnyMessage]) -> tuple[int, AIMessage] | None:
    """Returns the place of the model's last message, and the message; None before there is one."""
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(message := messages[place], AIMessage):
            return place, message
    return None
