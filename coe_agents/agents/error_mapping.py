"""Owns the mapping of a client's exceptions to our errors: what happened, what to do, and whether to ask again.

Clients are distinguished by class names and HTTP status, so that none of them has to be installed.
"""

import math
import re
from collections.abc import Collection
from typing import Any

from coe_agents.errors import (
    AgentConnectionError,
    AgentError,
    AgentTimeoutError,
    AuthenticationError,
    CoEError,
    ContextOverflowError,
    InvalidReplyError,
    InvalidRequestError,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
    iter_causes,
)
from coe_agents.text import one_line, safe_message

_LONGEST = 300
_TIMEOUTS = {"TimeoutError", "TimeoutException", "APITimeoutError", "ModelTimeoutError"}
_OFFLINE = {
    "ConnectionError",
    "APIConnectionError",
    "TransportError",
    "ModelConnectionError",
    "ClientConnectionError",
}
_BAD_REPLIES = {"JSONDecodeError", "APIResponseValidationError"}
_OVERFLOW = re.compile(
    r"maximum context length|context_length_exceeded|context window|prompt is too long|input is too long|"
    r"exceed the configured limit|too many tokens|maximum model length",
    re.IGNORECASE,
)
_NO_REPLY = re.compile(r"'choices'|unexpected response type", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"support|unexpected|unknown|unrecogni[sz]ed|not (?:allowed|permitted)|deprecated",
    re.IGNORECASE,
)
_SHORTEN = "Shorten the conversation, or lower `max_tokens`"
_N = r"""["'`]n["'`]|\bn\s*(?:=|>|must|is|should)|parameter:?\s+n\b"""


def to_agent_error(
    error: Exception,
    *,
    address: str = "",
    options: Collection[str] = (),
    secrets: Collection[str] = (),
) -> CoEError:
    """Returns our error for one that a model or its client raised, with `secrets` redacted and all of it visible.

    The address is that of the server; one of the `options` of the request may be what the server refused.
    """
    mapped = error if isinstance(error, CoEError) else _translate(error, address, options)
    message = safe_message(mapped.args[0], secrets)
    hint = safe_message(mapped.hint, secrets)
    if message != mapped.args[0] or hint != mapped.hint:
        mapped.args = (message,)
        mapped.hint = hint
    return mapped


def remedy_for(error: Exception) -> str:
    """Returns what to do about an error of a model, its client or its server."""
    if isinstance(error, ImportError):
        return "Install the package that the error names"
    hint = to_agent_error(error).hint
    return hint or "Call the model without coe-agents, and check whether the error is the same"


def status_of(error: Exception) -> int | None:
    """Returns the HTTP status of an error; None if it has none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status"):
            if isinstance(status := getattr(holder, name, None), int):
                return status
    return None


def is_stale(error: BaseException) -> bool:
    """Returns whether the connection belonged to an event loop that has ended; the next request gets another one."""
    causes = iter_causes(error)
    return any(
        isinstance(cause, RuntimeError) and str(cause) == "Event loop is closed" for cause in causes
    )


def is_of_another_loop(error: BaseException) -> bool:
    """Returns whether what was waited for belongs to another event loop, in asyncio's two wordings."""
    for cause in iter_causes(error):
        message = str(cause)
        if isinstance(cause, RuntimeError) and "different" in message and "loop" in message:
            return True
    return False


def _translate(error: Exception, address: str, options: Collection[str]) -> AgentError:
    status = status_of(error)
    names = {kind.__name__ for kind in type(error).__mro__}
    option = refused_option(error, status, options)
    if option is not None:
        refusal = InvalidRequestError(_message(error), hint=f"Omit `{option}`")
        refusal.option = option
        return refusal
    if status is not None and status >= 400:
        return _from_status(error, status, address)
    if names & _TIMEOUTS:
        hint = remedy_for_slow("`request_timeout` or `timeout` of the agent")
        return AgentTimeoutError("the model did not answer in time", hint=hint)
    if names & _OFFLINE:
        hint = f"Check that a server listens{_at(address)}"
        return AgentConnectionError(_message_with_root(error), hint=hint)
    if _OVERFLOW.search(str(error)) or "ContextOverflowError" in names:
        return ContextOverflowError(_message(error), hint=_SHORTEN)
    if names & _BAD_REPLIES or _NO_REPLY.search(str(error)):
        hint = f"Check that the server{_at(address)} speaks the protocol of the model's client"
        return InvalidReplyError(f"the reply cannot be read: {_message(error)}", hint=hint)
    return AgentError(f"{type(error).__name__}: {_message(error)}")


def remedy_for_slow(setting: str) -> str:
    """Returns what to do about a model that takes longer than `setting` allows.

    The command has no option for such a setting, but for what makes a reply shorter.
    """
    less = "Lower `max_tokens` or `n_samples` (`--max-tokens`, `--n`)"
    return f"{less}, or raise {setting}, in coe.toml or in Python"


def _from_status(error: Exception, status: int, address: str) -> AgentError:
    message = _message(error)
    if status in (401, 403):
        hint = "Check the key that the model is given, and its permissions"
        return AuthenticationError(message, hint=hint)
    if status == 404:
        return ModelNotFoundError(
            message,
            hint=f"Check the model's name and the address{_at(address)}: that of a vLLM server ends in /v1, and a "
            'ChatHuggingFace sends the name "dummy" until its `model_id` is set',
        )
    if status == 429:
        stated = str(error) + str(getattr(error, "code", ""))
        if "insufficient_quota" in stated:
            return RateLimitError(message, hint="The account has no credit left", retryable=False)
        hint = "Lower `max_concurrency`, or ask the provider for more"
        limited = RateLimitError(message, hint=hint)
        limited.retry_after = _retry_after(error)
        return limited
    if status in (408, 504):
        hint = f"The server{_at(address)} was too slow; see what it logs"
        return AgentTimeoutError(message, hint=hint)
    if status >= 500:
        failing = ServerError(message, hint=f"See what the server{_at(address)} logs")
        failing.retry_after = _retry_after(error)
        return failing
    if status == 413 or _OVERFLOW.search(str(error)):
        return ContextOverflowError(message, hint=_SHORTEN)
    hint = "Check the model's settings against what the server takes"
    return InvalidRequestError(message, hint=hint)


def refused_option(error: Exception, status: int | None, options: Collection[str]) -> str | None:
    """Returns the option that the model does not accept, if the error names it; else None."""
    text = str(error)
    if isinstance(error, TypeError):
        keyword = re.search(r"unexpected keyword argument '(\w+)'", text)
        return keyword[1] if keyword and keyword[1] in options else None
    is_unsupported = _UNSUPPORTED.search(text) is not None
    is_of_client = isinstance(error, ValueError | NotImplementedError) and is_unsupported
    if status not in (400, 403, 422, 501) and not is_of_client:
        return None
    parameter = getattr(error, "param", None)
    for option in options:
        # a temperature may also be out of range, which the user must correct
        if option == "temperature" and not is_unsupported:
            continue
        pattern = _N if option == "n" else rf"\b(?:top_)?{option}\b"
        if parameter in (option, f"top_{option}") or re.search(pattern, text):
            return option
    return None


def _message(error: BaseException) -> str:
    return one_line(str(error), _LONGEST) or type(error).__name__


def _message_with_root(error: Exception) -> str:
    """Returns the error's message with its first cause: "Connection error" alone is not enough."""
    *_, root = iter_causes(error)
    message = _message(error)
    if root is error:
        return message
    return f"{message.rstrip('.')}: {type(root).__name__}: {_message(root)}"


def _at(address: str) -> str:
    return f" at {address}" if address else ""


def _retry_after(error: Exception) -> float | None:
    """Returns the seconds that the server asks to wait, from `Retry-After`; None where it gives no number of them."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    stated = str(headers.get("retry-after") or headers.get("Retry-After") or "")
    try:
        seconds = float(stated)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
