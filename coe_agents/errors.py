"""Owns the run-time errors, and the form in which an error leaves the process: without the secrets that it may quote.

    CoEError
    ├── ConfigurationError      a configuration file or a set of options that cannot work
    ├── DatasetError            a dataset that cannot be read as questions
    ├── StoreError              a run's folder that cannot be written or resumed
    ├── SamplesError            a file of samples that cannot be read
    ├── NoThresholdError        samples on which no threshold keeps the stated risk
    ├── ModelLoadError          a model that cannot be loaded
    │   └── LabelError          an entailment model whose labels cannot be identified
    ├── ClusteringError         a clusterer whose model failed
    ├── CheckpointError         a checkpoint that another version or graph wrote, or that lacks something
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

Each is also the built-in error that fits: `ValueError` for a configuration, a dataset, samples or a threshold;
`RuntimeError` for the others, with `TimeoutError` and `ConnectionError` where these say more. A LangGraph server shows
its clients the message of built-in errors only.

Wrong arguments raise the built-in `ValueError` and `TypeError`.
"""

import base64
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from coe_agents.text import SECRET_ENDS, SHORTEST_SECRET, as_sentence, redact, safe_message, visible
from coe_agents.types import Fault

_DEEPEST = 8
_MOST_OBJECTS = 5_000
"""Of a holder, so many objects are looked through for secrets."""
_NOT_SEARCHED = ("torch", "transformers", "tokenizers", "numpy", "logging", "threading", "asyncio")
"""The modules whose objects hold no key of a server: what they call a token or a key is none."""
_PASSWORD = re.compile(r"://[^/@\s]*:([^/@\s]+)@")
_FIELD_ENDS = (*SECRET_ENDS, "passphrase", "credential", "credentials", "auth", "auth_header")
_SOURCE_ENDS = (*_FIELD_ENDS, "provider")
_HARMLESS = re.compile(
    r"accept.*|connection|content-.*|host|user-agent|x-stainless-.*", re.IGNORECASE
)
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
        return f"{as_sentence(message)} {self.hint}"


class ConfigurationError(CoEError, ValueError):
    """A configuration that cannot work.

    Attributes:
        field: The field at fault, such as "policy.max_coe" or "agents[0].model"; of several the first. "" for none.
    """

    def __init__(self, message: str, *, hint: str = "", field: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class DatasetError(CoEError, ValueError):
    """A dataset that cannot be read as questions; the message names file and line."""


class StoreError(CoEError, RuntimeError):
    """A run's folder that cannot be written or resumed."""


class SamplesError(CoEError, ValueError):
    """A file of samples that cannot be read; the message names file and line."""


class NoThresholdError(CoEError, ValueError):
    """Samples on which no threshold keeps the stated risk; the hint says how close they are to one."""


class ModelLoadError(CoEError, RuntimeError):
    """A model that cannot be loaded."""


class LabelError(ModelLoadError):
    """An entailment model whose labels cannot be identified."""


class ClusteringError(CoEError, RuntimeError):
    """A clusterer whose model failed."""


class CheckpointError(CoEError, RuntimeError):
    """A checkpoint that another version or graph wrote, or that lacks something."""


class GroupUnavailableError(CoEError, RuntimeError):
    """A group of which no agent answered: nothing was measured, so that it is no abstention."""

    retryable = True


class AgentError(CoEError, RuntimeError):
    """An agent that gave no usable responses.

    Attributes:
        retry_after: How many seconds the server asks to wait; None where it does not say.
        usage: The tokens of the replies that it gave all the same, a `coe_agents.types.Usage`; None without one.
    """

    retry_after: float | None = None
    usage: Any = None


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
        usage: The tokens of the responses and of the probe.
        sampling: How the responses were sampled, a `coe_agents.types.Sampling`.
    """

    sampling: Any = None


class InvalidReplyError(AgentError):
    """A reply that cannot be read, or that holds no response.

    Attributes:
        reply: The reply, a `coe_agents.types.AgentReply`, where each of its responses is a failure of its own; else
            None.
        fault: What is wrong with the reply, as in a `coe_agents.types.Response`; None where there is no reply.
    """

    retryable = True
    reply: Any = None
    fault: Fault | None = None


def invalid_proposal(why: str, *, hint: str = "") -> InvalidReplyError:
    """Returns the error about a reply that fits no tool or schema asked for, which is not asked for again."""
    error = InvalidReplyError(f"the proposal is invalid: {why}", hint=hint, retryable=False)
    error.fault = "invalid"
    return error


def is_control_flow(error: BaseException) -> bool:
    """Returns whether LangGraph controls a run with this exception: code that catches it must raise it again.

    Interrupts are such exceptions. So is the error about an invalid reply to an interrupt: if it is raised, a corrected
    reply can be given. LangGraph is not imported for this.
    """
    langgraph: Any = sys.modules.get("langgraph.errors")
    if langgraph is None:
        return False
    return isinstance(error, langgraph.GraphBubbleUp) or langgraph.is_invalid_resume(error)


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
    "secret", "password" or the like, in headers all but harmless ones, and in an address the password and what the
    query holds, but for a version. Looked through are the holder's own attributes, private ones of pydantic among
    them, and the objects, mappings and lists in them, such as clients and bound arguments.

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
    seen = set[int]()
    held = set[str | None]()
    for name, item in dict(_fields_of(holder)).items():
        held.update(_walk(item, name=name, depth=1, seen=seen))

    causes = list(iter_causes(error))
    sent = set[str]()
    for cause in causes:
        sent.update(_sent_with(cause))
    if not sent and None in held:  # a function gives the key: any word of a client may be it
        for cause in causes:
            if not isinstance(cause, CoEError):
                sent.update(str(cause).split())

    secrets = {secret.strip() for secret in held | sent if secret}
    return {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}


def describe_error(
    error: BaseException, holder: object = None, secrets: Collection[str] = ()
) -> str:
    r"""Returns an error as it may leave the process: its class, and its message, if any, made safe by `safe_message`.

    `holder` is the agent or model that raised it.

    Example:
        >>> describe_error(OSError("no sk-0123456789\x1b[2J"), secrets={"sk-0123456789"})
        'OSError: no [redacted]\\u001b[2J'
    """
    try:
        all_secrets = secrets_of(holder, error).union(secrets)
        text = safe_message(str(error).strip(), all_secrets)
    except Exception:  # anybody may have written the exception
        text = ""
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


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
        except (RuntimeError, AttributeError):
            continue  # it is no request, or httpx says that the error has none
        for name, value in headers.items():
            if not _HARMLESS.fullmatch(name):
                yield from str(value).split()
        yield from _secrets_in(address, "")


def _walk(value: Any, *, name: str, depth: int, seen: set[int]) -> Iterator[str | None]:
    """Yields each secret, and None for a function that gives one; `seen` are the ids of the objects looked through."""
    if depth > _DEEPEST or id(value) in seen or len(seen) > _MOST_OBJECTS:
        return

    def inside(item: Any, name: str) -> Iterator[str | None]:
        return _walk(item, name=name, depth=depth + 1, seen=seen)

    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        yield from _secrets_in(value, name)
        return
    if callable(getattr(type(value), "get_secret_value", None)):
        yield str(value.get_secret_value())
        return
    if callable(value) and name.lower().endswith(_SOURCE_ENDS):
        yield None
    if isinstance(value, Mapping):
        seen.add(id(value))
        holds_headers = name.lower().endswith("headers")
        for key, item in value.items():
            yield from inside(item, str(key))
            is_harmless = _HARMLESS.fullmatch(str(key)) is not None
            if holds_headers and not is_harmless and isinstance(item, str):
                yield from item.split()
    elif isinstance(value, list | tuple | set | frozenset):
        seen.add(id(value))
        for item in value:
            yield from inside(item, name)
    elif _is_searched(value):
        seen.add(id(value))
        for field, item in _fields_of(value):
            yield from inside(item, field)


def _secrets_in(text: str, name: str) -> Iterator[str]:
    if name.lower().endswith(_FIELD_ENDS):
        yield text.removeprefix("Bearer ")
        if text.startswith("Basic "):
            with suppress(ValueError):
                user_and_password = base64.b64decode(text.removeprefix("Basic ")).decode()
                _, _, password = user_and_password.partition(":")
                yield password
    yield from _PASSWORD.findall(text)
    yield from _query_secrets(text)


def _is_searched(value: object) -> bool:
    """Whether a value is an object with fields of its own, such as a client, and not code or a loaded model."""
    if isinstance(value, type | ModuleType | FunctionType | MethodType):
        return False
    package, _, _ = type(value).__module__.partition(".")
    return package not in _NOT_SEARCHED


def _fields_of(holder: object) -> Iterator[tuple[str, Any]]:
    """Yields the fields of an object, private ones of pydantic, slots and bound arguments among them."""
    if isinstance(holder, partial):
        for bound in (holder.args, holder.keywords, holder.func):
            yield "", bound
    for name in ("__dict__", "__pydantic_private__", "__pydantic_extra__"):
        fields = getattr(holder, name, None)
        if isinstance(fields, dict):
            yield from tuple(fields.items())
    for kind in type(holder).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        if isinstance(slots, str):
            slots = (slots,)
        for name in tuple(slots):
            if not name.startswith("__"):
                yield name, getattr(holder, name, None)


def _query_secrets(address: str) -> Iterator[str]:
    """Yields the values of an address's query, as any of them may be a secret, but for versions."""
    if "://" not in address or "?" not in address:
        return
    try:
        fields = parse_qsl(urlsplit(address).query)
    except ValueError:  # it is no address
        return
    for name, value in fields:
        if not name.lower().endswith("version"):
            yield value
