"""Owns the test double of the model that drives an agent: it calls tools as its script says."""

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable


class ScriptedDriver(BaseChatModel):
    """A chat model that accepts tools and replies as its script says.

    Args:
        script: Its messages in order: a call returns the one whose place is the number of the model's messages in the
            conversation; the last one is for all later calls. Or a function of the conversation.

    Example:
        >>> driver = ScriptedDriver(script=[AIMessage("I will look."), AIMessage("Done.")])
        >>> driver.invoke([("user", "Go on."), ("ai", "I will look.")]).text
        'Done.'
    """

    script: list[AIMessage] | Callable[[list[BaseMessage]], AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Runnable[Any, AIMessage]:
        """Returns the model as it is: the script says what it calls."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        if callable(self.script):
            reply = self.script(messages)
        else:
            n_replies = sum(isinstance(message, AIMessage) for message in messages)
            reply = self.script[min(n_replies, len(self.script) - 1)]
        # a copy, since an agent gives the message an id and may edit its calls
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(deep=True))])
