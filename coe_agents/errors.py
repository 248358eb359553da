"""Owns the run-time errors, and the form in which an error leaves the process: without the secrets that it may quote.

    CoEError
    ├── ConfigurationError      a configuration file or a set of options that cannot work
    ├── DatasetError            a dataset that cannot be read as questions
    ├── StoreError              a run's folder that cannot be written or resumed
    ├── SamplesError            a file of samples that cannot be read
    ├── ModelLoadError          a model that cannot be loaded
    │   └── LabelError          an entailment model whose labels cannot be identified
    ├── ClusteringError         a clusterer whose model failed
    ├── CheckpointError         a checkpoint that another version wrote
    ├── GroupUnavailableError   a group of which no agent answered
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

import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from coe_agents.text import SECRET_ENDS, SHORTEST_SECRET, redact, safe_message, visible

_DEEPEST = 6
_PASSWORD = re.compile(r"://[^/@\s]*:([^/@\s]+)@")
_SOURCE_ENDS = (*SECRET_ENDS, "provider")
_HARMLESS = re.compile(r"accept.*|connection|content-.*|host|user-agent|x-stainless-.*", re.IGNORECASE)
"""The headers of a request that hold no secret; any other may."""


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


class GroupUnavailableError(CoEError, RuntimeError):
    """A group of which no agent answered: nothing was measured, so that it is no abstention."""

    retryable = True


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


INVALID = "the proposal is invalid"
"""In the message of an `InvalidReplyError` about what a model that did reply calls, or gives for a schema."""
FAILED_REPLY = "the model's provider says that the reply failed"
"""The message of an `InvalidReplyError` about one reply, beside which others of the same agent may be valid."""


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


def secrets_of(holder: object, error: BaseException | None = None) -> set[str]:
    """Returns the secrets that an agent or a chat model holds, and those that an error of it may quote.

    A secret is what a field keeps as pydantic's `SecretStr`, or as a string under a name that ends in "key", "token",
    "secret", "password" or "authorization", and in an address the password and what the query holds, but for a
    version. Looked through are the holder's own attributes, and the pydantic models, parts of coe-agents, mappings and
    lists in them.

    A key that a function gives is in no field. It is in the request that clients attach to their errors, so all of its
    headers are secrets but harmless ones. Where the holder has such a function and no request is attached, each long
    word of the error may be the key; of our own errors none is.

    Example:
        >>> class Model:
        ...     api_key = "not looked at: the class's, not the object's"
        ...     def __init__(self):
        ...         self.options = {"api_key": "sk-0123456789", "model": "gpt-0123456789"}
        >>> secrets_of(Model())
        {'sk-0123456789'}
    """
    found, chain = set(_walk(getattr(holder, "__dict__", {}), name="", depth=0)), list(iter_causes(error))
    sent = {word for each in chain for word in _sent_with(each)}
    if not sent and None in found:
        sent = {word for each in chain if not isinstance(each, CoEError) for word in str(each).split()}
    return {secret.strip() for secret in found | sent if secret and len(secret.strip()) >= SHORTEST_SECRET}


def describe_error(error: BaseException, holder: object = None, secrets: Collection[str] = ()) -> str:
    r"""Returns an error as it may leave the process: its class, and its message, if any, made safe by `safe_message`.

    `holder` is the agent or model that raised it.

    Example:
        >>> describe_error(OSError("no sk-0123456789\x1b[2J"), secrets={"sk-0123456789"})
        'OSError: no [redacted]\\u001b[2J'
    """
    try:
        text = safe_message(str(error).strip(), {*secrets, *secrets_of(holder, error)})
    except Exception:  # anybody may have written the exception
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_invalid_proposal(described: str) -> bool:
    """Returns whether an error, as `describe_error` has it, is of a reply that fits no tool or schema asked for."""
    return described.startswith(f"{InvalidReplyError.__name__}: ") and INVALID in described


def prints_secret(error: BaseException, secrets: Collection[str]) -> bool:
    """Returns whether printing an exception, with its causes, shows a secret."""
    printed = "".join(traceback.format_exception(error))
    return redact(printed, secrets) != printed


def _sent_with(error: BaseException) -> Iterator[str]:
    """Yields what may be secret in the request that a client attached to an error, or to its response."""
    for holder in (error, getattr(error, "response", None)):
        try:
            request: Any = getattr(holder, "request", None) or getattr(holder, "request_info", None)
            headers = {} if request is None else request.headers
            address = str(getattr(request, "url", ""))
        except (RuntimeError, AttributeError):  # httpx's for an error without a request, or it is no request
            continue
        for name, value in headers.items():
            if not _HARMLESS.fullmatch(name):
                yield from str(value).split()
        yield from (secret for secret in _walk(address, name="", depth=0) if secret)


def _walk(value: Any, *, name: str, depth: int) -> Iterator[str | None]:
    """Yields each secret, and None for a function that gives one."""
    if depth > _DEEPEST:
        return
    if callable(reveal := getattr(value, "get_secret_value", None)):
        yield str(reveal())
    elif isinstance(value, str):
        if name.lower().endswith(SECRET_ENDS):
            yield value.removeprefix("Bearer ")
        yield from _PASSWORD.findall(value)
        yield from _query_secrets(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, name=str(key), depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, name=name, depth=depth + 1)
    elif hasattr(type(value), "model_fields") or type(value).__module__.startswith("coe_agents."):
        # other objects are not searched
        yield from _walk(getattr(value, "__dict__", {}), name=name, depth=depth)
    elif callable(value) and name.lower().endswith(_SOURCE_ENDS):
        yield None


def _query_secrets(address: str) -> Iterator[str]:
    """Yields the values of an address's query, as any of them may be a secret, but for versions."""
    if "://" not in address or "?" not in address:
        return
    try:
        fields = parse_qsl(urlsplit(address).query)
    except ValueError:  # it is no address
        return
    yield from (value for name, value in fields if not name.lower().endswith("version"))
