"""Owns one turn of an agent with a council: what the driver and the members are asked, and how."""

import asyncio
import inspect
import uuid
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from operator import is_
from typing import Any, cast

from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain.agents.structured_output import (
    AutoStrategy,
    OutputToolBinding,
    ProviderStrategy,
    ToolStrategy,
)
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, set_config_context
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents.actions.canonical import tool_key
from coe_agents.agents import ModelAgent
from coe_agents.agents.requests.chat_models import without_streaming
from coe_agents.decision import GroupDecision
from coe_agents.decision.case import DecidedCase
from coe_agents.graph.runnables import disable_streaming
from coe_agents.middleware.deliberation import CouncilResult, TurnProposals
from coe_agents.middleware.driver import AsyncHandler, Driver, Handler
from coe_agents.middleware.once import n_places, new_action
from coe_agents.middleware.open_calls import create_tool_request
from coe_agents.middleware.parsing import parsers_of, tool_forms
from coe_agents.middleware.withheld import without_withheld
from coe_agents.types import Agent, AgentReply, AgentRequest

Replies = dict[str, AgentReply | Exception]

_USUAL = {"n_samples": 1, "timeout": 30.0}
"""What a member is asked for where its own settings leave it open: a person, or a run, waits for it at each call."""


class ToolSchemas:
    """The schemas of an agent's tools, read once as long as the tools are the same objects."""

    def __init__(self) -> None:
        # one value: turns may run at once
        self._last: tuple[list[Any], list[dict[str, Any]]] = ([], [])

    def of(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns the schemas as OpenAI's, of the tools that have one."""
        parts = list[Any]()
        for tool in tools:
            if isinstance(tool, BaseTool):
                parts += [tool, tool.name, tool.description, tool.args_schema]
            else:
                parts.append(object())  # a dict is read each time: it may be changed in place
        known_parts, schemas = self._last
        if len(parts) != len(known_parts) or not all(map(is_, parts, known_parts)):
            schemas = [schema for schema in map(_to_schema, tools) if schema is not None]
            self._last = parts, schemas
        return schemas


class TurnRequest:
    """One turn: what the driver and the members are asked, and how.

    Args:
        request: What the driver is asked.
        schemas: Those of its tools; see `ToolSchemas`.
        gated: The tools whose calls are compared; None for all.
        is_async: Whether the run is in the asynchronous form.

    Attributes:
        tools: The driver's tools as OpenAI's function schemas, with those of a structured answer. Tools that run at a
            model's provider, such as its search, are omitted: the members cannot have them.
        parsers: Of the tools whose arguments pydantic parses, by name; see `parsers_of`.
        outputs: The tools by which the driver gives a structured answer, by name.
        n_places: How many calls can be at their tools at the same time.
        driver: The models that may have given the driver's message, once it has been asked.
    """

    def __init__(
        self,
        request: ModelRequest[Any],
        schemas: Sequence[dict[str, Any]],
        gated: Container[str] | None,
        *,
        is_async: bool,
    ) -> None:
        self.request = request
        self._gated = gated
        self.driver = Driver()
        self.outputs = dict[str, OutputToolBinding[Any]]()
        self.tools = [*schemas]
        for spec in _output_specs(request):
            function = {
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.json_schema,
            }
            self.tools.append({"type": "function", "function": function})
            self.outputs[spec.name] = OutputToolBinding.from_schema_spec(spec)
        self.parsers = parsers_of(request.tools)

        named = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        self._named = {tool_key(name): tool for name, tool in named.items()}
        self._compared = list[Any]()
        self._shown = dict[str, Any]()
        for schema in self.tools:
            name = schema["function"]["name"]
            tool = named.get(name)
            # as they are: LangChain's conversion drops the inner levels of a schema that refers to itself
            is_of_json = tool is not None and isinstance(tool.args_schema, dict)
            self._compared.append(tool if is_of_json else schema)
            self._shown[tool_key(name)] = schema
        for name, tool in named.items():
            self._shown[tool_key(name)] = tool

        config = ensure_config()
        self.n_places = n_places(config, is_async=is_async)
        self.config: RunnableConfig = _hide_replies(disable_streaming(config))
        self._ids = {message.id for message in [*request.messages, *request.state["messages"]]}

    def for_member(self, agent: Agent) -> AgentRequest:
        """Returns what a member is asked: the driver's system prompt and messages, its tools, and the usual settings.

        Calls that were withheld are left out, and why: a member that read them might propose them, too.
        """
        request: Any = {**self._for_members}
        if isinstance(agent, ModelAgent):
            for name, value in _USUAL.items():
                if name in agent.unset:
                    request[name] = value
        return cast("AgentRequest", request)

    @cached_property
    def _for_members(self) -> AgentRequest:
        messages = without_withheld(self.request.messages)
        question = ""
        for message in messages:
            if isinstance(message, HumanMessage):
                question = str(message.text).strip() or question
        if self.request.system_message is not None:
            messages = [self.request.system_message, *messages]
        return AgentRequest(
            question=question,
            messages=convert_to_openai_messages(messages),
            round=0,
            tools=[*self.tools],
            parses_calls=True,
        )

    def _for_driver(self) -> ModelRequest[Any]:
        observed = self.driver.observe(self.request)
        model = self.request.model
        if not isinstance(model, BaseChatModel):
            return observed
        return observed.override(model=model.model_copy(update=without_streaming(model)))

    def ask_driver(self, handler: Handler) -> ModelResponse[Any]:
        """Returns the driver's response; nothing that it says is streamed, nor what a fallback behind it says."""
        with set_config_context(self.config) as context:
            return self._receive(context.run(handler, self._for_driver()))

    async def aask_driver(self, handler: AsyncHandler) -> ModelResponse[Any]:
        async def ask() -> ModelResponse[Any]:
            return await handler(self._for_driver())

        with set_config_context(self.config) as context:
            return self._receive(await asyncio.create_task(ask(), context=context))

    def _receive(self, returned: Any) -> ModelResponse[Any]:
        """Returns a response whose messages have ids, of which none is that of an earlier message."""
        if isinstance(returned, ExtendedModelResponse):
            returned = returned.model_response
        if isinstance(returned, AIMessage):
            returned = ModelResponse([returned])
        self.driver.note_reply(returned.result)
        messages = []
        for message in returned.result:
            is_models = isinstance(message, AIMessage)
            messages.append(self.with_own_id(message) if is_models else message)
        return ModelResponse(messages, structured_response=returned.structured_response)

    def with_own_id(self, message: AIMessage) -> AIMessage:
        """Returns a message that replaces no other one in the state: the same if it has an id of its own."""
        if message.id is not None and message.id not in self._ids:
            return message
        return message.model_copy(update={"id": str(uuid.uuid4())})

    def message_of(self, response: ModelResponse[Any]) -> AIMessage | None:
        """Returns the model's message in a response; None if it has none."""
        for message in reversed(response.result):
            if isinstance(message, AIMessage):
                return message
        return None

    def request_of(self, call: ToolCall, message: AIMessage) -> ToolCallRequest:
        """Returns the request for a call of a message that is not in the state yet, as it would reach its tool."""
        state = {**self.request.state, "messages": [*self.request.state["messages"], message]}
        tool = self._named.get(tool_key(call["name"]))
        return create_tool_request(call, state, self.request.runtime, tool)

    def case(self, gate: str, message: AIMessage, result: CouncilResult) -> DecidedCase:
        """Returns what was judged as a case, decided so far by the group."""
        decided = result.decision
        answer = result.judged if decided["action"] == "answer" else None
        nothing = GroupDecision(action="abstain", answer=answer, reason="")
        # with the action, the cause and the reason of what was decided
        decision: Any = {**nothing.data, **decided}
        return DecidedCase(
            id=new_action(gate, message.id),
            question=self._for_members["question"],
            conversation=[*self._for_members["messages"]],
            decision=decision,
            leading=result.judged,
            responses=[*result.responses],
            labels=[*result.labels],
        )

    def proposals(
        self, message: AIMessage, response: ModelResponse[Any], replies: Replies
    ) -> TurnProposals:
        # the driver's model turned out to give structured answers without a tool
        is_own_way = response.structured_response is not None and not message.tool_calls
        return TurnProposals(
            driver=message,
            replies=replies,
            tools=self._compared,
            parsers=self.parsers,
            question=self._for_members["question"],
            finishing=frozenset(self.outputs) if is_own_way else frozenset(),
            gated=self._gated,
        )

    def forms_of(self, calls: Iterable[ToolCall]) -> dict[str, list[str]]:
        """Returns the forms in which calls are compared, by their ids; see `tool_forms`."""
        forms = {}
        for call in calls:
            tool = self._shown[tool_key(call["name"])]
            forms[call["id"] or ""] = list(tool_forms(tool, call, self.parsers))
        return forms

    def respond(self, message: AIMessage) -> ModelResponse[Any] | None:
        """Returns the response with a member's message, as if the driver had given it; None if it cannot be read."""
        message = self.with_own_id(message)
        response_format: Any = self.request.response_format
        if response_format is None:
            return ModelResponse([message])
        if not any(call["name"] in self.outputs for call in message.tool_calls):
            return ModelResponse([message]) if message.tool_calls else None
        if len(message.tool_calls) > 1:
            return None

        [call] = message.tool_calls
        try:
            answer = self.outputs[call["name"]].parse(call["args"])
        except Exception:  # the schema's own code
            return None
        content = getattr(response_format, "tool_message_content", None)
        if not content:
            content = f"Returning structured response: {answer}"
        reply = ToolMessage(content, tool_call_id=call["id"], name=call["name"])
        return ModelResponse([message, reply], structured_response=answer)


def _output_specs(request: ModelRequest[Any]) -> Sequence[Any]:
    """Returns the schemas of the tools by which the driver gives a structured answer."""
    strategy: Any = request.response_format
    if strategy is None or isinstance(strategy, ProviderStrategy):
        return ()
    if isinstance(strategy, ToolStrategy):
        return strategy.schema_specs
    profile = getattr(request.model, "profile", None) or {}
    if profile.get("structured_output"):
        return ()
    schema = strategy.schema if isinstance(strategy, AutoStrategy) else strategy
    return ToolStrategy(schema).schema_specs


def _to_schema(tool: Any) -> dict[str, Any] | None:
    """Returns a tool's schema; None of one in the form of another provider."""
    try:
        schema = convert_to_openai_tool(tool)
    except ValueError:
        return None
    if not isinstance(schema.get("function"), dict):
        return None
    return schema


def _hide_replies(config: RunnableConfig) -> RunnableConfig:
    """Returns a config under which `astream_events` and `astream_log` show no reply of a model; traces do."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return {**config, "callbacks": [_hidden(handler) for handler in callbacks or []]}
    manager = callbacks.copy()
    for handler in callbacks.handlers:
        hidden = _hidden(handler)
        if hidden is not handler:
            manager.remove_handler(handler)
            manager.add_handler(hidden)
    return {**config, "callbacks": manager}


def _hidden(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    if hasattr(handler, "tap_output_iter"):
        return _WithoutReplies(handler)
    return handler


class _WithoutReplies(AsyncCallbackHandler):
    """Tells a handler that streams what a run does when a model is asked, and when it has replied, but not what."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self.run_inline = handler.run_inline

    async def on_chat_model_start(self, *args: Any, **options: Any) -> None:
        await _call(self._handler.on_chat_model_start, *args, **options)

    async def on_llm_end(self, response: LLMResult, **options: Any) -> None:
        nothing = LLMResult(generations=[[ChatGeneration(message=AIMessage(""))]])
        await _call(self._handler.on_llm_end, nothing, **options)


async def _call(method: Any, *args: Any, **options: Any) -> None:
    outcome = method(*args, **options)
    if inspect.isawaitable(outcome):
        await outcome
