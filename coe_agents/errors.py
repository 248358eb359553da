"""Owns the run-time errors.

    CoEError
    ├── ConfigurationError      a configuration file or a set of options that cannot work
    ├── DatasetError            a dataset that cannot be read as questions
    ├── StoreError              a run's folder that cannot be written or resumed
    ├── SamplesError            a file of samples that cannot be read
    ├── ModelLoadError          a model that cannot be loaded
    │   └── LabelError          an entailment model whose labels cannot be identified
    ├── ClusteringError         a clusterer whose model failed
    ├── CheckpointError         a checkpoint that another version wrote
    └── AgentError              an agent that gave no usable responses
        ├── ContextOverflowError    a conversation that is too long for the model
        ├── NoChoiceError           a model that replies with none of the choices it was given
        ├── AgentConnectionError    a server that cannot be reached, or that drops the connection
        ├── AgentTimeoutError       a model that does not answer in time
        ├── AuthenticationError     a key that the server does not accept
        ├── ModelNotFoundError      a model that the server does not have
        ├── RateLimitError          a server that received too many requests
        ├── ServerError             a server that fails
        ├── InvalidRequestError     a request that the server rejects
        ├── IgnoredTemperatureError a model whose responses are copies of one, whatever its temperature
        └── InvalidReplyError       a reply that cannot be read, or that holds no response

Each is also the built-in error that fits: `ValueError` for a configuration, a dataset or samples; `RuntimeError` for
the others, with `TimeoutError` and `ConnectionError` where these say more. A LangGraph server shows its clients the
message of built-in errors only.

Wrong arguments raise the built-in `ValueError` and `TypeError`.
"""

import sys
from collections.abc import Iterator
from typing import Any

from coe_agents.text import visible


class CoEError(Exception):
    """Base of all run-time errors. A message often quotes a server, a file or a model: what is invisible is escaped.

    Args:
        message: What happened.
        hint: What to do about it.
        retryable: Whether the caller may usefully try the same call again. False after an agent has retried.
    """

    retryable = False

    def __init__(self, message: str, *, hint: str = "", retryable: bool | None = None) -> None:
        super().__init__(visible(message))
        self.hint = visible(hint)
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        message = super().__str__()
        if not self.hint:
            return message
        return f"{message if message.endswith('?') else message.rstrip('.') + '.'} {self.hint}"


class ConfigurationError(CoEError, ValueError):
    """A configuration that cannot work."""


class DatasetError(CoEError, ValueError):
    """A dataset that cannot be read as questions; the message names file and line."""


class StoreError(CoEError, RuntimeError):
    """A run's folder that cannot be written or resumed."""


class SamplesError(CoEError, ValueError):
    """A file of samples that cannot be read; the message names file and line."""


class ModelLoadError(CoEError, RuntimeError):
    """A model that cannot be loaded."""


class LabelError(ModelLoadError):
    """An entailment model whose labels cannot be identified."""


class ClusteringError(CoEError, RuntimeError):
    """A clusterer whose model failed."""


class CheckpointError(CoEError, RuntimeError):
    """A checkpoint that another version wrote."""


class AgentError(CoEError, RuntimeError):
    """An agent that gave no usable responses.

    Attributes:
        retry_after: How many seconds the server asks to wait; None where it does not say.
    """

    retry_after: float | None = None


class ContextOverflowError(AgentError):
    """A conversation that is too long for the model."""


class NoChoiceError(AgentError):
    """A model that replies with none of the choices it was given."""


class AgentConnectionError(AgentError, ConnectionError):
    """A server that cannot be reached, or that drops the connection."""

    retryable = True


class AgentTimeoutError(AgentError, TimeoutError):
    """A model that does not answer in time."""

    retryable = True


class AuthenticationError(AgentError):
    """A key that the server does not accept."""


class ModelNotFoundError(AgentError):
    """A model that the server does not have."""


class RateLimitError(AgentError):
    """A server that received too many requests."""

    retryable = True


class ServerError(AgentError):
    """A server that fails."""

    retryable = True


class InvalidRequestError(AgentError):
    """A request that the server rejects.

    Attributes:
        option: The option that the server rejects; None if it names no option.
    """

    option: str | None = None


class IgnoredTemperatureError(AgentError):
    """A model whose responses are copies of one, whatever its temperature.

    Attributes:
        usage: The tokens of the responses and of the probe, a `coe_agents.types.Usage`.
        sampling: How the responses were sampled, a `coe_agents.types.Sampling`.
    """

    usage: Any = None
    sampling: Any = None


class InvalidReplyError(AgentError):
    """A reply that cannot be read, or that holds no response.

    Attributes:
        reply: The reply, a `coe_agents.types.AgentReply`, where each of its responses is a failure of its own; else
            None.
    """

    retryable = True
    reply: Any = None


def is_control_flow(error: BaseException) -> bool:
    """Returns whether LangGraph controls a run with this exception: code that catches it must raise it again.

    Interrupts are such exceptions. So is the error about an invalid reply to an interrupt: if it is raised, a corrected
    reply can be given. LangGraph is not imported for this.
    """
    langgraph: Any = sys.modules.get("langgraph.errors")
    return langgraph is not None and (isinstance(error, langgraph.GraphBubbleUp) or langgraph.is_invalid_resume(error))


def iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and its causes, also those that its traceback does not show."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
