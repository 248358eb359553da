"""Owns the step that judges tool calls: after the model, before anybody is asked or anything runs."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime

from coe_agents.middleware.reviewer import OnError, Reviewer
from coe_agents.middleware.verdict import VERDICTS, Verdict, fingerprint, in_words, verdict_of


class VerdictState(AgentState[Any]):
    """The agent's state with the verdicts, which neither its input nor its output holds."""

    coe_verdicts: NotRequired[Annotated[dict[str, Verdict], PrivateStateAttr]]


class CoEVerdicts(AgentMiddleware[VerdictState, Any, Any]):
    """Has the group judge calls of the named tools, and stops none of them.

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
        question: Makes the question from a call; its `tool` is None, as the call is judged before the tools are
            reached. By default `coe_agents.prompts.review_tool_call`, which wants "approve" or "reject": a
            `NormalizedMatch` puts "Approve" and "approve." together, and needs no model.
        approves: Tells whether the group's answer approves; by default whether it says "approve" and nothing against.
        on_error: What a failure to ask leads to; "block": the verdict "failed"; "raise": the exception.
        name: Tells several of them in one agent apart; by default the name of the class.

    Raises:
        TypeError: If the graph is not compiled, or `tools` does not hold names.
        ValueError: If the graph has a checkpointer, or nothing is to be judged.
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
        name: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(tools, str) or not all(isinstance(tool, str) for tool in tools):
            raise TypeError(f'"tools" must be a list of names of tools; {tools!r} came. Write tools=["transfer_money"]')
        self._gated = frozenset(tools)
        self._check_gated()
        self._reviewer = Reviewer(graph, question=question, approves=approves, on_error=on_error)
        self._name = name or type(self).__name__

    def _check_gated(self) -> None:
        if not self._gated:
            raise ValueError('"tools" must name at least one tool; none came. Write tools=["transfer_money"]')

    @property
    def name(self) -> str:
        """The name, by which create_agent tells middleware apart."""
        return self._name

    def after_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group about each call of the model's last message that is to be judged."""
        asks = self._requests(state, runtime)
        # one after another, so that each finds its own run again if the group's graph has to be resumed
        return self._update(state, {key: self._ask(request) for key, request in asks.items()})

    async def aafter_model(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Asks the group; see `after_model`."""
        asks = self._requests(state, runtime)
        return self._update(state, {key: await self._aask(request) for key, request in asks.items()})

    def _ask(self, request: ToolCallRequest) -> Verdict:
        return self._reviewer.ask(self._reviewer.about_call(request), request.runtime.config)

    async def _aask(self, request: ToolCallRequest) -> Verdict:
        return await self._reviewer.aask(self._reviewer.about_call(request), request.runtime.config)

    def _requests(self, state: VerdictState, runtime: Runtime[Any]) -> dict[str, ToolCallRequest]:
        calls = [call for call in pending_calls(state) if call["name"] in self._gated]
        return {fingerprint(call): _to_request(call, state, runtime) for call in calls}

    @staticmethod
    def _update(state: VerdictState, verdicts: dict[str, Verdict]) -> dict[str, Any] | None:
        if not verdicts:
            return None
        # of the others only those that another instance has just written: what is older is of no use
        current = {fingerprint(call) for call in pending_calls(state)}
        others = {key: verdict for key, verdict in state.get("coe_verdicts", {}).items() if key in current}
        return {VERDICTS: {**others, **verdicts}}


def lacks_approval(request: ToolCallRequest) -> bool:
    """Returns whether the group did not approve of a call, or was not asked: `when` of a `HumanInTheLoopMiddleware`."""
    verdict = verdict_of(request.state, request.tool_call)
    return verdict is None or verdict["outcome"] != "approved"


def describe_call(call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:
    """Returns the call and what the group thinks of it: `description` of a `HumanInTheLoopMiddleware`."""
    verdict = verdict_of(state, call)
    said = "the group was not asked" if verdict is None else in_words(verdict)
    return f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}\n{said}"


def last_reply(messages: Sequence[AnyMessage]) -> tuple[int, AIMessage] | None:
    """Returns the place of the model's last message, and the message; None before there is one."""
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(message := messages[place], AIMessage):
            return place, message
    return None


def pending_calls(state: AgentState[Any]) -> list[ToolCall]:
    """Returns the calls of the model's last message that nothing has replied to yet."""
    found = last_reply(state["messages"])
    if found is None:
        return []
    place, reply = found
    after = state["messages"][place + 1 :]
    answered = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
    return [call for call in reply.tool_calls if call["id"] not in answered]


def _to_request(call: ToolCall, state: VerdictState, runtime: Runtime[Any]) -> ToolCallRequest:
    return ToolCallRequest(
        tool_call=call,
        tool=None,
        state=state,
        runtime=ToolRuntime(
            state=dict(state),
            context=runtime.context,
            config=get_config(),
            stream_writer=runtime.stream_writer,
            tool_call_id=call["id"],
            store=runtime.store,
        ),
    )
