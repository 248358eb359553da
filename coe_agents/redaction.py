"""Owns the redaction of keys: the secrets of a model are redacted in errors, logs and checkpoints."""

import base64
import html
import json
import os
import re
import traceback
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from coe_agents.errors import CoEError, iter_causes
from coe_agents.text import one_line, visible

REDACTED = "[redacted]"
_SHORTEST = 8
"""Placeholders such as "none" or "EMPTY" are not secrets, and redacting them would spoil texts."""
_WINDOW = 8
"""So many consecutive characters of a secret are redacted: messages quote parts of a text."""
_DEEPEST = 6
_PASSWORD = re.compile(r"://[^/@\s]*:([^/@\s]+)@")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_ENDS = ("key", "token", "secret", "password", "authorization")
_SOURCE_ENDS = (*_SECRET_ENDS, "provider")
_HARMLESS = re.compile(r"accept.*|connection|content-.*|host|user-agent|x-stainless-.*", re.IGNORECASE)
"""The headers of a request that hold no secret; any other may."""


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
    return {secret.strip() for secret in found | sent if secret and len(secret.strip()) >= _SHORTEST}


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


def safe_message(text: str, secrets: Collection[str]) -> str:
    """Returns the text of an error with `secrets` redacted, on one line, and all of it visible."""
    return visible(one_line(redact(text, secrets)))


def secrets_of_environment() -> set[str]:
    """Returns the values of the environment variables whose names say that they are secrets, such as OPENAI_API_KEY."""
    return {
        value.strip()
        for name, value in os.environ.items()
        if name.lower().endswith(_SECRET_ENDS) and len(value.strip()) >= _SHORTEST
    }


def redact(text: str, secrets: Collection[str]) -> str:
    """Returns `text` with each secret redacted, also where it is escaped, encoded, or cut.

    Redacted is whatever shares eight consecutive characters with a secret, or with a form of it: as JSON, Python, HTML,
    CSV, LaTeX, an address and base64 write it.

    Example:
        >>> redact("Incorrect API key: sk-0123456789.", {"sk-0123456789"})
        'Incorrect API key: [redacted].'
        >>> redact("got 'sk-01234567...", {"sk-0123456789"})
        "got '[redacted]..."
    """
    windows = frozenset[str]().union(*map(_windows, secrets))
    if not windows:
        return text
    parts, shown, covered = list[str](), 0, 0
    for start in range(len(text) - _WINDOW + 1):
        if text[start : start + _WINDOW] not in windows:
            continue
        if start > covered or covered == 0:  # it does not touch the part before it
            parts += [text[shown:start], REDACTED]
        shown = covered = start + _WINDOW
    return "".join([*parts, text[shown:]])


def redact_all(value: Any, secrets: Collection[str]) -> Any:
    """Returns a value of JSON with `redact` applied to each text in it, names of fields included."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {redact(str(name), secrets): redact_all(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_all(item, secrets) for item in value]
    return value


@lru_cache(maxsize=256)
def _windows(secret: str) -> frozenset[str]:
    """Returns every run of `_WINDOW` characters of a secret and of its forms; none of a placeholder."""
    if len(secret) < _SHORTEST:
        return frozenset()
    forms = {secret, secret.upper(), secret.lower(), html.escape(secret), quote(secret), quote_plus(secret)}
    forms |= {quote(secret, safe=""), secret.replace('"', '""'), re.sub(r"([\\{}$&#%_])", r"\\\1", secret)}
    escaped = {repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1]}
    escaped.add(json.dumps(secret, ensure_ascii=False)[1:-1])
    escaped |= {re.sub(r"(?<!\\)(['\"])", r"\\\1", form) for form in escaped}
    forms |= escaped | {json.dumps(form)[1:-1] for form in escaped} | {repr(form)[1:-1] for form in escaped}
    plain = secret.encode("utf-8", errors="surrogatepass")
    for n_before in range(3):  # where it begins among the three bytes that four letters of base64 encode
        code = base64.b64encode(b"\x00" * n_before + plain).decode().rstrip("=")[2 if n_before else 0 : -1]
        forms |= {code, code.translate(str.maketrans("+/", "-_"))}
    forms.add(plain.hex())
    return frozenset(
        form[start : start + _WINDOW] for form in forms for start in range(max(0, len(form) - _WINDOW + 1))
    )


def read_key(variable: str, whose: str = "") -> str:
    """Returns the key that an environment variable holds; `whose` follows the variable in messages.

    Raises:
        ValueError: It holds none. What was given as the name is not shown where it may be the key itself: names of
            variables are capitals, digits and "_" by custom; keys rarely are.

    Example:
        >>> read_key("sk-0123456789")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: must be the NAME of an environment variable; got text that is not shown, as it may be the key ...
    """
    key = os.environ.get(variable, "")
    if not key.strip() and _VARIABLE.fullmatch(variable) is None:
        got = "got text that is not shown, as it may be the key itself"
        advice = "Put the key into a variable, and name that"
        raise ValueError(f"must be the NAME of an environment variable{whose}; {got}. {advice}")
    must = f'the environment variable "{variable}"{whose} must hold a key'
    if not key.strip():
        raise ValueError(f"{must}; it is not set. Export it")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"{must}; it has blanks or other characters that no key contains. Export it again")
    return key


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
        if name.lower().endswith(_SECRET_ENDS):
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
