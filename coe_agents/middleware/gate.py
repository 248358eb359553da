"""Owns the gate: a tool runs, and an answer goes out, only if the group is sure and approves."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypedDict, get_args

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ConfigDict

from coe_agents.middleware.reviewer import Asks, OnError
from coe_agents.middleware.verdict import Verdict, in_words, unmeasured, verdict_of
from coe_agents.middleware.verdicts import CoEVerdicts, VerdictState, last_reply

OnUncertain = Literal["block", "interrupt"]
Reply = ToolMessage | Command[Any]


class ApprovalRequest(TypedDict):
    """What a person is asked where the group is not sure: the value of the interrupt.

    Attributes:
        type: Always "coe_tool_approval".
        tool_call_id: The id of the call.
        tool: The tool's name.
        args: Its arguments.
        verdict: What the group thinks.
    """

    type: Literal["coe_tool_approval"]
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    verdict: Verdict


class ApprovalReply(BaseModel):
    """What the person replies: `Command(resume={"type": "approve"})`.

    Attributes:
        type: "approve" or "reject".
        message: For the driving model, with a rejection.
    """

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject"]
    message: str = ""


class CoEMiddleware(CoEVerdicts):
    """Lets an agent of `create_agent` run the named tools only if a group of models is sure and approves.

    The group judges each call before the tools are reached, one call after another, and its verdicts are kept in
    private state: a resumed run does not ask again. A call that is not approved is answered with an error that says
    why, with the numbers. A call that was changed after its verdict (a person edited it, say) is judged as it is then.
    What closes the gate: a group that is not sure; one that is sure and does not approve; a failure to ask it; a call
    without an id; a call or an answer too long to be shown whole.

    Args:
        graph: See `CoEVerdicts`, as for `question`, `approves` and `name`.
        tools: The names of the gated tools.
        on_uncertain: "block", or "interrupt": a person is asked (`ApprovalRequest`, `ApprovalReply`) where the group
            is not sure. That needs a checkpointer; without one the run ends there. A reply that does not fit raises
            pydantic's `ValidationError` and may be repeated. Calls judged late, after they were changed, are blocked.
        on_error: "block": a failure to ask closes the gate; "raise": it ends the run.
        final_answer: Whether the final answer is judged, too, also a structured one. One that is not approved is
            replaced in the state, under its id. Streams show the model's words before that, and "messages" shows
            nothing else: give out the last state only.

    Raises:
        TypeError: If the graph is not compiled, or `tools` does not hold names.
        ValueError: If the parts do not fit together; at the first tool call if the agent lacks a gated tool, since
            a misspelt name would gate nothing.

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
        name: str | None = None,
    ) -> None:
        if on_uncertain not in get_args(OnUncertain):
            raise ValueError(f'"on_uncertain" must be "block" or "interrupt"; {on_uncertain!r} came. Choose one')
        self._on_uncertain = on_uncertain
        self._final_answer = final_answer
        super().__init__(graph, tools=tools, question=question, approves=approves, on_error=on_error, name=name)

    def _check_gated(self) -> None:
        if not self._final_answer:
            super()._check_gated()

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group about the final answer, if this is one, and about the calls of the model's last message."""
        if (asks := self._about_answer(state)) is not None:
            verdict = self._reviewer.ask(asks, get_config())
            if verdict["outcome"] != "approved":
                return _withheld(state, verdict)
        return super().after_model(state, runtime)

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group; see `after_model`."""
        if (asks := self._about_answer(state)) is not None:
            verdict = await self._reviewer.aask(asks, get_config())
            if verdict["outcome"] != "approved":
                return _withheld(state, verdict)
        return await super().aafter_model(state, runtime)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Reply]) -> Reply:
        """Runs the tool if the group approves, or a person where the group is not sure."""
        if not self._gates(request):
            return handler(request)
        verdict = _known(request)
        blocked = self._blocked(request, verdict or self._ask(request), late=verdict is None)
        return blocked or handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Reply]]
    ) -> Reply:
        """Runs the tool if it may; see `wrap_tool_call`."""
        if not self._gates(request):
            return await handler(request)
        verdict = _known(request)
        blocked = self._blocked(request, verdict or await self._aask(request), late=verdict is None)
        return blocked or await handler(request)

    def _about_answer(self, state: VerdictState) -> Asks | None:
        found = last_reply(state["messages"])
        if not self._final_answer or found is None:
            return None
        place, reply = found
        structured = state.get("structured_response")
        if structured is None and reply.tool_calls:  # also calls that something else has answered: the model goes on
            return None
        answer = reply.text if structured is None else repr(structured)
        return self._reviewer.about_answer(answer, state["messages"][:place])

    def _gates(self, request: ToolCallRequest) -> bool:
        known = {tool.name for tool in request.runtime.tools}
        missing = sorted(self._gated - known)
        if missing and known:
            raise ValueError(
                f'"tools" of {self.name} must name tools of the agent; it has no {", ".join(missing)}. '
                f"Its tools are {', '.join(sorted(known))}"
            )
        return request.tool_call["name"] in self._gated

    def _blocked(self, request: ToolCallRequest, verdict: Verdict, *, late: bool) -> ToolMessage | None:
        """Returns what the driving model reads instead of the tool's result; None if the tool may run."""
        call = request.tool_call
        if verdict["outcome"] == "approved":
            return None
        why = in_words(verdict)
        # a late verdict was reached in this very step, which a resumed run would repeat
        if verdict["outcome"] == "uncertain" and self._on_uncertain == "interrupt" and not late:
            asked = ApprovalRequest(
                type="coe_tool_approval",
                tool_call_id=call["id"] or "",
                tool=call["name"],
                args=call["args"],
                verdict=verdict,
            )
            reply = interrupt(asked, response_schema=ApprovalReply)
            if reply.type == "approve":
                return None
            why = f"a person rejected it{': ' if reply.message else ''}{reply.message}"
        return ToolMessage(
            f"{call['name']} was not run: {why}. Do not repeat the call unchanged.",
            name=call["name"],
            tool_call_id=call["id"] or "",
            status="error",
            artifact=verdict,
        )


def _known(request: ToolCallRequest) -> Verdict | None:
    if request.tool_call["id"] is None:  # the tool would run, and its result then belong to no call
        return unmeasured("failed", "the call has no id")
    return verdict_of(request.state, request.tool_call)


def _withheld(state: VerdictState, verdict: Verdict) -> dict[str, Any]:
    messages = state["messages"]
    place = max(place for place, message in enumerate(messages) if isinstance(message, AIMessage))
    text = f"I withhold my answer: {in_words(verdict)}."
    update: dict[str, Any] = {
        "messages": [
            AIMessage(text, id=messages[place].id, response_metadata={"coe_verdict": verdict}),
            *(RemoveMessage(message.id) for message in messages[place + 1 :] if message.id),
        ],
        "jump_to": "end",
    }
    if state.get("structured_response") is not None:
        update["structured_response"] = None
    return update
