"""Owns the marks by which a gate knows what it let pass: a MAC over what was decided, under a secret.

Whoever may write an agent's state, such as a client of a LangGraph server, cannot make a mark.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import ToolCall
from langchain_core.runnables.config import var_child_runnable_config

from coe_agents.errors import ConfigurationError

SECRET = "COE_GATE_SECRET"
"""The environment variable of the secret that all processes share which resume each other's threads."""
NOT_SHARED = (
    "a person's decision cannot be known in another process than the one that asked: "
    f"set {SECRET}, the same in all processes that resume each other's threads"
)
_OTHER_SECRET = f"{SECRET} is another one than when you were asked"
_LEAST = 16
"""The fewest characters of a secret."""
_DRAWN = secrets.token_bytes(32)
"""The secret where none is given: marks of this process then mean nothing in another one."""

Purpose = Literal["vouched", "waits", "verdict", "answer", "started"]


def make_mark(
    purpose: Purpose, gate: str, message_id: str | None, calls: Sequence[ToolCall], decided: Any
) -> str:
    """Returns the mark of calls of a message, on the thread of the present run.

    A mark for one `purpose` is not valid for another; `decided` is what was decided on the calls, as JSON.
    """
    named = []
    for call in calls:
        named.append([call.get("id"), call["name"], call["args"]])
    text = to_text([purpose, gate, thread_id(), message_id, named, decided])
    return hmac.new(_secret(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def is_mark(value: object, mark: str) -> bool:
    """Returns whether something is this mark, in a time that does not tell how much of it is."""
    if not isinstance(value, str):
        return False
    return hmac.compare_digest(value.encode(errors="replace"), mark.encode())


def to_text(value: Any) -> str:
    """Returns JSON data as text that is equal where the data is: 100 is not 100.0, nor True 1.

    Example:
        >>> to_text({"b": 1, "a": 1.0}), to_text({"a": 1, "b": 1}) == to_text({"a": True, "b": 1})
        ('{"a": 1.0, "b": 1}', False)
    """
    return json.dumps(value, sort_keys=True, default=repr)


def thread_id() -> str | None:
    """Returns the thread of the present run; None where no checkpointer keeps it."""
    thread = configurable().get("thread_id")
    if thread is None:
        return None
    return str(thread)


def configurable() -> Mapping[str, Any]:
    """Returns what the config of the present run has for its checkpointer, such as the thread."""
    return (var_child_runnable_config.get() or {}).get("configurable") or {}


def is_shared() -> bool:
    """Returns whether other processes may know the secret: it was given, and not drawn by this one."""
    return bool(os.environ.get(SECRET))


def asked_again() -> str:
    """Returns why a person is asked once more about what they were asked before: what they replied is not used."""
    why = _OTHER_SECRET if is_shared() else NOT_SHARED
    return f"You are asked again, and what you replied before is not used: {why}."


def _secret() -> bytes:
    secret = os.environ.get(SECRET)
    if not secret:
        return _DRAWN
    if len(secret) < _LEAST:
        hint = 'Draw one: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        raise ConfigurationError(
            f"{SECRET} must have at least {_LEAST} characters; got {len(secret)}", hint=hint
        )
    return secret.encode(errors="surrogateescape")
