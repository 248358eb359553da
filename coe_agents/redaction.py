"""Owns the redaction of keys: the secrets of a model are redacted in errors, logs and checkpoints."""

import json
import re
import traceback
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"
_SHORTEST = 8
"""Placeholders such as "none" or "EMPTY" are not secrets, and redacting them would spoil texts."""
_DEEPEST = 4
_PASSWORD = re.compile(r"://[^/@\s]*:([^/@\s]+)@")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_ENDS = ("key", "token", "secret", "password", "authorization")


def secrets_of(holder: object) -> set[str]:
    """Returns the secrets that an agent or a chat model holds.

    A secret is what a field keeps as pydantic's `SecretStr`, or as a string under a name that ends in "key", "token",
    "secret", "password" or "authorization", and the password in an address. Looked through are the holder's own
    attributes, and the pydantic models, parts of coe-agents, mappings and lists in them.

    Example:
        >>> class Model:
        ...     api_key = "not looked at: the class's, not the object's"
        ...     def __init__(self):
        ...         self.options = {"api_key": "sk-0123456789", "model": "gpt-0123456789"}
        >>> secrets_of(Model())
        {'sk-0123456789'}
    """
    found = {secret.strip() for secret in _walk(getattr(holder, "__dict__", {}), name="", depth=0)}
    return {secret for secret in found if len(secret) >= _SHORTEST}


def redact(text: str, secrets: Collection[str]) -> str:
    """Returns `text` with each secret redacted, also where it is escaped or encoded for an address.

    Example:
        >>> redact("Incorrect API key: sk-0123456789.", {"sk-0123456789"})
        'Incorrect API key: [redacted].'
    """
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))}
    for form in sorted(forms, key=len, reverse=True):  # a secret may be part of another
        text = text.replace(form, REDACTED)
    return text


def may_be_key(variable: str) -> bool:
    """Returns whether what was given as the *name* of an environment variable may be the key itself.

    Names of variables are capitals, digits and "_" by custom; keys rarely are.

    Example:
        >>> may_be_key("OPENAI_API_KEY"), may_be_key("sk-0123456789")
        (False, True)
    """
    return _VARIABLE.fullmatch(variable) is None


def prints_secret(error: BaseException, secrets: Collection[str]) -> bool:
    """Returns whether printing an exception, with its causes, shows a secret."""
    printed = "".join(traceback.format_exception(error))
    return redact(printed, secrets) != printed


def _walk(value: Any, *, name: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if callable(reveal := getattr(value, "get_secret_value", None)):
        yield str(reveal())
    elif isinstance(value, str):
        if name.lower().endswith(_SECRET_ENDS):
            yield value.removeprefix("Bearer ")
        yield from _PASSWORD.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, name=str(key), depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, name=name, depth=depth + 1)
    elif hasattr(type(value), "model_fields") or type(value).__module__.startswith("coe_agents."):
        # other objects are not searched
        yield from _walk(getattr(value, "__dict__", {}), name=name, depth=depth)


def clean(text: str, limit: int | None = None) -> str:
    """Returns `text` on one line, cut to `limit` characters, without control characters that could steer a terminal."""
    line = "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"
