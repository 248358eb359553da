"""Owns what a LangGraph server needs: the refusal of contexts that no graph takes, and graphs that only answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Annotated, Any, TypeAlias

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import StreamMode
from typing_extensions import TypedDict

from coe_agents.decision.refusal import why_not
from coe_agents.decision.views import to_numbers
from coe_agents.graph.context import CoEContext
from coe_agents.graph.resuming import CoEStateGraph
from coe_agents.graph.runnables import TwoForms
from coe_agents.graph.state import CoEInput
from coe_agents.graph.withheld import withheld_message

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_STREAM = "__pregel_stream"
"""The key under which LangGraph passes the stream of a graph to the graphs inside."""
_WITH_CONTEXT = ("/runs", "/assistants", "/commands", "/mcp")
"""In the path of each request that may set a context."""


class ContextCheck:
    """ASGI middleware that answers 422 to a request with a context that is no `CoEContext`, and says why.

    A LangGraph server drops the keys that a graph's context does not have before the graph sees them, so that a
    misspelt threshold would go unnoticed. Name an app with this middleware as `http.app` in `langgraph.json`, if all
    graphs there have this context: `Starlette(middleware=[Middleware(ContextCheck)])`.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        is_change = scope["type"] == "http" and scope["method"] in ("POST", "PATCH", "PUT")
        if not is_change or not any(part in scope["path"] for part in _WITH_CONTEXT):
            await self.app(scope, receive, send)
            return

        received = list[Message]()
        is_complete = False
        while not is_complete:
            message = await receive()
            received.append(message)
            is_complete = not message.get("more_body")
        problem = _problem_of(b"".join(message.get("body", b"") for message in received))
        if problem is not None:
            await _refuse(send, problem)
            return

        waiting = iter(received)

        async def receive_again() -> Message:
            return next(waiting, None) or await receive()

        await self.app(scope, receive_again, send)


async def _refuse(send: Send, problem: str) -> None:
    body = json.dumps({"detail": problem}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 422, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _problem_of(body: bytes) -> str | None:
    """Returns why a context of a request is refused; None if none is."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        # the server's own error says more
        return None
    for context in _contexts(parsed):
        try:
            CoEContext(**context)
        except (TypeError, ValueError) as error:
            return str(error)
    return None


def _contexts(body: Any) -> Iterator[dict[str, Any]]:
    """Yields the contexts of a request, of each request of a batch, or of an RPC's parameters."""
    requests = body if isinstance(body, list) else [body]
    for request in requests:
        if not isinstance(request, dict):
            continue
        for holder in (request, request.get("params")):
            if isinstance(holder, dict) and isinstance(holder.get("context"), dict):
                yield holder["context"]


class PublicOutput(TypedDict, total=False):
    """What a caller may see of a run.

    Attributes:
        decision: "answer", "calls" and "reason", and the numbers, by the names of `DecisionData`; of each agent
            "n_responses" and "entropy". No text of a response but the answer's. The reason has what a person wrote.
        messages: The conversation, with the answer or the refusal at the end.
    """

    decision: dict[str, Any]
    messages: Annotated[list[AnyMessage], add_messages]


class _PublicState(CoEInput, PublicOutput, total=False):
    """All channels of the graph."""


def withhold(graph: Any) -> "StateGraph[Any, CoEContext, CoEInput, PublicOutput]":
    """Returns a graph, uncompiled, that tells the answer of a group, or why there is none, and nothing withheld.

    The state of a graph of `create_coe_graph` has all responses, and its `reason` quotes them. Serve this one instead
    to clients that must not see them, such as models that use it by MCP or A2A; for the same reason, build from it the
    tools of what you serve (`create_coe_tool`). Where the group asks a person,
    the run is interrupted and resumed as without it, and the person is shown the candidates.

    Args:
        graph: A compiled graph of `create_coe_graph`, without a checkpointer of its own.

    Example:
        >>> from coe_agents import ThresholdPolicy, create_coe_graph
        >>> from coe_agents.clustering import NormalizedMatch
        >>> from coe_agents.testing import ScriptedAgent
        >>> agents = [ScriptedAgent("a", ["Lyon"]), ScriptedAgent("b", ["Nice"])]
        >>> group = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5)).compile()
        >>> result = withhold(group).compile().invoke({"question": "Which is nicer?"})
        >>> result["decision"]["reason"], "Nice" in str(result["messages"][1:])
        ('several answers share the lead', False)
    """
    modes: list[StreamMode] = ["custom", "values"]

    def ask(state: _PublicState, config: RunnableConfig) -> dict[str, Any]:
        write = get_stream_writer()
        unseen = _unseen(config)

        def run() -> dict[str, Any]:
            result: dict[str, Any] = {}
            for mode, chunk in graph.stream(state, unseen, stream_mode=modes):
                result = _after(result, mode, chunk, write)
            return result

        with set_config_context(unseen) as context:
            return _publish(context.run(run))

    async def aask(state: _PublicState, config: RunnableConfig) -> dict[str, Any]:
        write = get_stream_writer()
        unseen = _unseen(config)

        async def run() -> dict[str, Any]:
            result: dict[str, Any] = {}
            async for mode, chunk in graph.astream(state, unseen, stream_mode=modes):
                result = _after(result, mode, chunk, write)
            return result

        with set_config_context(unseen) as context:
            return _publish(await asyncio.create_task(run(), context=context))

    made = CoEStateGraph(
        _PublicState, context_schema=CoEContext, input_schema=CoEInput, output_schema=PublicOutput
    )
    made.add_node("group", TwoForms(ask, aask, name="group"))
    made.add_edge(START, "group")
    made.add_edge("group", END)
    return made


def _after(
    result: dict[str, Any], mode: str, chunk: Any, write: Callable[[Any], None]
) -> dict[str, Any]:
    """Returns the newest state after a part of the stream; an event is passed on."""
    if mode == "values":
        return dict(chunk)
    write(_public_event(chunk))
    return result


def _unseen(config: RunnableConfig) -> RunnableConfig:
    """Returns a config under which no stream of a caller, of any mode, shows what happens inside; traces do."""
    configurable = {**config.get("configurable", {})}
    configurable.pop(_STREAM, None)
    callbacks = config.get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        for handler in [*callbacks.handlers]:
            if _streams(handler):
                callbacks.remove_handler(handler)
    else:
        callbacks = [handler for handler in callbacks or () if not _streams(handler)]
    return {**config, "configurable": configurable, "callbacks": callbacks}


def _streams(handler: object) -> bool:
    """Whether a callback handler is one of LangGraph or LangChain that shows a stream what happens."""
    return hasattr(handler, "tap_output_iter")


def _public_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an event without the text of an error, which may quote what a model replied."""
    return {**event, "error": "it failed"} if event.get("error") else event


def _publish(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a caller may see of the result of a graph of `create_coe_graph`."""
    decision = result["decision"]
    claims = [claim for claim in decision["claims"] or () if claim["action"] != "drop"]
    public = to_numbers({**decision, "contested": None, "claims": claims or None})
    del public["ignored"]
    public["answer"] = decision["answer"]
    public["calls"] = decision["calls"]
    public["reason"] = _reason(decision)

    *conversation, last = result["messages"]
    in_metadata = {name: public[name] for name in ("action", "answer", "cause", "reason")}
    if public["action"] == "answer":
        message = AIMessage(
            last.content,
            id=last.id,
            tool_calls=last.tool_calls,
            response_metadata={"decision": in_metadata},
        )
    else:
        message = withheld_message(
            public["action"], public["reason"], id=last.id, decision=in_metadata
        )
    return {"decision": public, "messages": [*conversation, message]}


def _reason(decision: Mapping[str, Any]) -> str:
    """Returns why a decision is as it is, without a text of a response."""
    # the group's own reason quotes its responses
    if decision["decided_by"] == "person":
        return str(decision["ruling"])
    if decision["decided_by"] != "group":
        return f"{decision['decided_by']} decided"
    if decision["action"] == "answer":
        return "the gate lets the answer pass"
    return why_not(decision)
