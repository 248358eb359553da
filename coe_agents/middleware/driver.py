"""Owns who drives: which models may have given a message of an agent, since whoever gave it has no vote on it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool

from coe_agents.actions.proposals import check_call
from coe_agents.agents.requests.endings import Ending, judge_end
from coe_agents.agents.requests.model_names import (
    ModelName,
    is_same_model,
    models_in,
    name_models,
    names_in,
)
from coe_agents.types import Agent

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class Driver:
    """All models that may have given one message.

    They are those that a handler behind the gate was asked to call, since other middleware may call another model than
    the gate was shown, and those that the message itself names. `tools` are those that they were shown.

    Attributes:
        ending: How the message ended, as the gate saw it: other middleware may write it anew, without its metadata.
    """

    def __init__(self, tools: Sequence[Any] = ()) -> None:
        self._models: list[Any] = []
        self._tools = tools
        self.ending: Ending = "whole"

    def observe(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns an equal request; which models other middleware puts into it is noted."""
        parts = {}
        for part in fields(ModelRequest):
            parts[part.name] = getattr(request, part.name)
        drivers = [*getattr(request, "drivers", ()), self]
        return _ObservedRequest(drivers=drivers, **parts)

    def tool(self, name: str) -> BaseTool | None:
        """Returns the tool of this name that the models were shown; None of one that is not known."""
        for tool in self._tools:
            if isinstance(tool, BaseTool) and tool.name == name:
                return tool
        return None

    def check_call(self, name: str, args: Mapping[str, Any]) -> None:
        """Refuses, by a ValueError, a call that fits no tool that the models were shown, where it is known which."""
        if self._tools:
            check_call({"name": name, "args": args}, self._tools)

    def note(self, model: Any) -> None:
        self._models += models_in(model)

    def join(self, other: "Driver") -> None:
        """Adds what is known of another message, which may be the same one."""
        self._models += other._models
        if self.ending == "whole":
            self.ending = other.ending

    def sign(self, message: AIMessage) -> None:
        """Writes into the message which models may have given it, for a process that has not seen it come."""
        name_models(message, self._models)

    def note_reply(self, messages: Sequence[object]) -> None:
        for message in messages:
            if isinstance(message, AIMessage):
                self._models += names_in(message)
                self.ending = judge_end(message)

    def is_of(self, agent: Agent, messages: Sequence[object] = ()) -> bool:
        """Returns whether an agent's model is one of these, by the agent's own word or by what its messages say."""
        uses = getattr(agent, "uses", None)
        if uses is not None and any(map(uses, self._models)):
            return True
        for message in messages:
            if isinstance(message, AIMessage):
                for name in names_in(message):
                    if any(is_same_model(name, model) for model in self._models):
                        return True
        return False


@dataclass(init=False)
class _ObservedRequest(ModelRequest[Any]):
    """A request that tells `drivers` each model that is put into it; so do the requests that are made of it."""

    drivers: list[Driver] = field(default_factory=list)

    def __init__(self, *, drivers: list[Driver], **parts: Any) -> None:
        object.__setattr__(self, "drivers", drivers)
        super().__init__(**parts)
        # since langchain 1.5.2 a request is filled past its own `__setattr__`
        for name in ("model", "model_settings"):
            self._note(name, getattr(self, name))

    def __setattr__(self, name: str, value: Any) -> None:
        self._note(name, value)
        super().__setattr__(name, value)

    def _note(self, name: str, value: Any) -> None:
        model = value if name == "model" else None
        if name == "model_settings" and "model" in value:
            model = ModelName(None, str(value["model"]))  # it replaces the name of the model itself
        if model is not None:
            for driver in self.drivers:
                driver.note(model)
