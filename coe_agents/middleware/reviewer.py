"""Owns asking the group for a verdict, and what a failure to do so means."""

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp, is_invalid_resume

from coe_agents.graph.compiled import check_compiled
from coe_agents.middleware.verdict import Verdict, is_approval, read_verdict, too_long, unmeasured
from coe_agents.prompts import MAX_REVIEWED, review_answer, review_tool_call

logger = logging.getLogger(__name__)

OnError = Literal["block", "raise"]
Asks = Callable[[], str | Verdict]
"""Returns a question for the group, or a verdict where there is none to ask."""


class Reviewer:
    """A group that is asked whether tool calls and answers are right.

    Args:
        graph: A compiled graph of `create_coe_graph`.
        question: Makes the question from a call; by default `coe_agents.prompts.review_tool_call`.
        approves: Tells whether an answer approves; by default `is_approval`.
        on_error: "block": a failure is a verdict, "failed"; "raise": it is raised.
    """

    def __init__(
        self,
        graph: Runnable[Any, Any],
        *,
        question: Callable[[ToolCallRequest], str] | None,
        approves: Callable[[str], bool] | None,
        on_error: OnError,
    ) -> None:
        if on_error not in get_args(OnError):
            raise ValueError(f'"on_error" must be "block" or "raise"; {on_error!r} came. "block" is safe')
        self._graph = check_compiled(graph)
        self._question: Callable[[ToolCallRequest], str | Verdict] = question or _about_call
        self._approves = approves or is_approval
        self._on_error = on_error

    def about_call(self, request: ToolCallRequest) -> Asks:
        """Returns what makes the question about a tool call."""
        return lambda: self._question(request)

    def about_answer(self, answer: str, messages: Sequence[AnyMessage]) -> Asks:
        """Returns what makes the question about a final answer to a conversation."""
        if len(answer) > MAX_REVIEWED:
            return lambda: too_long(len(answer))
        return lambda: review_answer(answer, _conversation(messages))

    def ask(self, asks: Asks, config: RunnableConfig) -> Verdict:
        """Returns the group's verdict; a failure is one, too."""
        try:
            asked = asks()
            return asked if isinstance(asked, dict) else self._read(self._graph.invoke({"question": asked}, config))
        except Exception as error:
            return self._failed(error)

    async def aask(self, asks: Asks, config: RunnableConfig) -> Verdict:
        """Returns the group's verdict; see `ask`."""
        try:
            asked = asks()
            if isinstance(asked, dict):
                return asked
            return self._read(await self._graph.ainvoke({"question": asked}, config))
        except Exception as error:
            return self._failed(error)

    def _read(self, result: dict[str, Any]) -> Verdict:
        return read_verdict(result, self._approves)

    def _failed(self, error: Exception) -> Verdict:
        # a person is being asked inside the graph, or has replied what cannot be read: LangGraph's to deal with
        if self._on_error == "raise" or isinstance(error, GraphBubbleUp) or is_invalid_resume(error):
            raise error
        logger.warning("the gate is closed: asking the group failed with %s", type(error).__name__)
        # only the type: the text of an error may tell what the driving model should not read
        return unmeasured("failed", f"asking it failed with {type(error).__name__}")


def _about_call(request: ToolCallRequest) -> str | Verdict:
    call = request.tool_call
    arguments = json.dumps(call["args"], ensure_ascii=False)
    if len(arguments) > MAX_REVIEWED:
        return too_long(len(arguments))
    return review_tool_call(call["name"], arguments, _conversation(request.state["messages"]))


def _conversation(messages: Sequence[AnyMessage]) -> list[tuple[str, str]]:
    """Returns what people and the assistant said; what tools returned is left out, for anybody may have written it."""
    return [
        ("user" if isinstance(message, HumanMessage) else "assistant", text)
        for message in messages
        if isinstance(message, HumanMessage | AIMessage) and (text := message.text.strip())
    ]
