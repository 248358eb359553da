"""Owns one turn of an agent with a council: what the driver and the members are asked, and how."""

import asyncio
import inspect
import uuid
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from operator import is_
from typing import Any

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
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
from coe_agents.graph.nodes.agent import disable_streaming
from coe_agents.middleware.deliberation import Proposals
from coe_agents.middleware.driver import AsyncHandler, Driver, Handler
from coe_agents.middleware.once import n_places
from coe_agents.middleware.parsing import parsers_of, tool_forms
from coe_agents.middleware.withheld import without_withheld
from coe_agents.types import Agent, AgentReply, AgentRequest

Replies = dict[str, AgentReply | Exception]

_USUAL = {"n_samples": 1, "timeout": 30.0}
"""What a member is asked for where its own settings leave it open: a person, or a run, waits for it at each call."""


class ToolSchemas:
    """The schemas of an agent's tools, read once as long as the tools are the same objects."""

    def __init__(self) -> None:
        self._last: tuple[list[Any], list[dict[str, Any]]] = (
            [],
            [],
        )  # one value: turns may run at once

    def of(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns the schemas as OpenAI's, of the tools that have one."""
        own = [tool for tool in tools if isinstance(tool, BaseTool)]
        parts = [
            part for tool in own for part in (tool, tool.name, tool.description, tool.args_schema)
        ]
        read, known = self._last
        # a dict is read each time, since it may be changed in place
        if len(own) < len(tools) or len(parts) != len(read) or not all(map(is_, parts, read)):
            known = [schema for schema in map(_to_schema, tools) if schema is not None]
            self._last = parts, known
        return known


class TurnRequest:
    """One turn: what the driver and the members are asked, and how.

    Args:
        request: What the driver is asked.
        schemas: Those of its tools; see `ToolSchemas`.
        gated: The tools whose calls are compared, as `tool_key` writes their names; None for all.
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
        gated: Collection[str] | None,
        *,
        is_async: bool,
    ) -> None:
        self.request, self._gated = request, gated
        self.driver = Driver()
        outputs = _outputs(request)
        self.tools = [*schemas, *(schema for schema, _ in outputs.values())]
        self.outputs = {name: binding for name, (_, binding) in outputs.items()}
        self.parsers = parsers_of(request.tools)
        # as they are: LangChain's conversion drops the inner levels of a schema that refers to itself
        named = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        of_json = {name: tool for name, tool in named.items() if isinstance(tool.args_schema, dict)}
        self._compared = [of_json.get(schema["function"]["name"], schema) for schema in self.tools]
        self._shown: dict[str, Any] = {
            tool_key(schema["function"]["name"]): schema for schema in self.tools
        }
        self._shown |= {tool_key(name): tool for name, tool in named.items()}
        config = ensure_config()
        self.n_places = n_places(config, is_async=is_async)
        self.config: RunnableConfig = _hide_replies(disable_streaming(config))
        self._ids = {message.id for message in [*request.messages, *request.state["messages"]]}

    def for_member(self, agent: Agent) -> AgentRequest:
        """Returns what a member is asked: the driver's system prompt and messages, its tools, and the usual settings.

        Calls that were withheld are left out, and why: a member that read them might propose them, too.
        """
        unset = agent.unset if isinstance(agent, ModelAgent) else ()
        usual: Any = {name: value for name, value in _USUAL.items() if name in unset}
        return {**self._for_members, **usual}

    @cached_property
    def _for_members(self) -> AgentRequest:
        system, messages = self.request.system_message, without_withheld(self.request.messages)
        texts = (
            str(one.text).strip() for one in reversed(messages) if isinstance(one, HumanMessage)
        )
        return AgentRequest(
            question=next(filter(None, texts), ""),
            messages=convert_to_openai_messages([*([] if system is None else [system]), *messages]),
            round=0,
            tools=[*self.tools],
            parses_calls=True,
        )

    def _for_driver(self) -> ModelRequest[Any]:
        observed, model = self.driver.observe(self.request), self.request.model
        if isinstance(model, BaseChatModel):
            return observed.override(model=model.model_copy(update={"disable_streaming": True}))
        return observed

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
        response = ModelResponse([returned]) if isinstance(returned, AIMessage) else returned
        self.driver.note_reply(response.result)
        result = [
            self.with_own_id(one) if isinstance(one, AIMessage) else one for one in response.result
        ]
        return ModelResponse(result, structured_response=response.structured_response)

    def with_own_id(self, message: AIMessage) -> AIMessage:
        """Returns a message that replaces no other one in the state: the same if it has an id of its own."""
        if message.id is not None and message.id not in self._ids:
            return message
        return message.model_copy(update={"id": str(uuid.uuid4())})

    def message_of(self, response: ModelResponse[Any]) -> AIMessage | None:
        """Returns the model's message in a response; None if it has none."""
        return next((one for one in reversed(response.result) if isinstance(one, AIMessage)), None)

    def proposals(
        self, message: AIMessage, response: ModelResponse[Any], replies: Replies
    ) -> Proposals:
        # the driver's model turned out to give structured answers without a tool
        is_own_way = response.structured_response is not None and not message.tool_calls
        return Proposals(
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
        shown = self._shown
        return {
            call["id"] or "": [*tool_forms(shown[tool_key(call["name"])], call, self.parsers)]
            for call in calls
        }

    def respond(self, message: AIMessage) -> ModelResponse[Any] | None:
        """Returns the response with a member's message, as if the driver had given it; None if it cannot be read."""
        message = self.with_own_id(message)
        response_format: Any = self.request.response_format
        if response_format is None:
            return ModelResponse([message])
        structured = [call for call in message.tool_calls if call["name"] in self.outputs]
        if not structured:
            return ModelResponse([message]) if message.tool_calls else None
        if len(message.tool_calls) > 1:
            return None
        call = structured[0]
        try:
            answer = self.outputs[call["name"]].parse(call["args"])
        except Exception:  # the schema's own code
            return None
        content = (
            getattr(response_format, "tool_message_content", None)
            or f"Returning structured response: {answer}"
        )
        reply = ToolMessage(content, tool_call_id=call["id"], name=call["name"])
        return ModelResponse([message, reply], structured_response=answer)


def _outputs(
    request: ModelRequest[Any],
) -> dict[str, tuple[dict[str, Any], OutputToolBinding[Any]]]:
    """Returns the schema and the parser of each tool by which the driver gives a structured answer, by name."""
    response_format: Any = request.response_format
    if response_format is None or isinstance(response_format, ProviderStrategy):
        return {}
    strategy = response_format
    if not isinstance(strategy, ToolStrategy):
        if (getattr(request.model, "profile", None) or {}).get("structured_output"):
            return {}
        strategy = ToolStrategy(strategy.schema if isinstance(strategy, AutoStrategy) else strategy)
    return {
        spec.name: (
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": spec.json_schema,
                },
            },
            OutputToolBinding.from_schema_spec(spec),
        )
        for spec in strategy.schema_specs
    }


def _to_schema(tool: Any) -> dict[str, Any] | None:
    """Returns a tool's schema; None of one in the form of another provider."""
    try:
        schema = convert_to_openai_tool(tool)
    except ValueError:
        return None
    return schema if isinstance(schema.get("function"), dict) else None


def _hide_replies(config: RunnableConfig) -> RunnableConfig:
    """Returns a config under which `astream_events` and `astream_log` show no reply of a model; traces do."""
    found = config.get("callbacks")
    if not isinstance(found, BaseCallbackManager):
        return {**config, "callbacks": [_hidden(one) for one in found or []]}
    manager = found.copy()
    for one in found.handlers:
        if (hidden := _hidden(one)) is not one:
            manager.remove_handler(one)
            manager.add_handler(hidden)
    return {**config, "callbacks": manager}


def _hidden(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    return _WithoutReplies(handler) if hasattr(handler, "tap_output_iter") else handler


class _WithoutReplies(AsyncCallbackHandler):
    """Tells a handler that streams what a run does when a model is asked, and when it has replied, but not what."""

    def __init__(self, handler: Any) -> None:
        self._handler, self.run_inline = handler, handler.run_inline

    async def on_chat_model_start(self, *args: Any, **options: Any) -> None:
        await _call(self._handler.on_chat_model_start, *args, **options)

    async def on_llm_end(self, response: LLMResult, **options: Any) -> None:
        nothing = LLMResult(generations=[[ChatGeneration(message=AIMessage(""))]])
        await _call(self._handler.on_llm_end, nothing, **options)


async def _call(method: Any, *args: Any, **options: Any) -> None:
    outcome = method(*args, **options)
    if inspect.isawaitable(outcome):
        await outcome
