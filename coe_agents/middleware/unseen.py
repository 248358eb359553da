"""Owns that no stream of events shows what the models of a council say; it shows that they are asked."""

import inspect
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig


def hide_replies(config: RunnableConfig) -> RunnableConfig:
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
