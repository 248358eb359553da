"""Owns the fingerprint of what was built in Python: a run that is resumed must be of the same graph and agents."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from pydantic import BaseModel, SecretStr

from coe_agents.text import SECRET_ENDS, SHORTEST_SECRET

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_NO_PART = object()
_KEPT_AS = {
    "model": ("_original", "_agent"),
    "tools": ("_parameters",),
    "compare": ("_rules",),
    "text": ("is_loose",),
    "strategies": ("_by_regime",),
}
"""Under which attributes classes of ours keep an argument that they do not keep under its name."""


def fingerprint(*parts: object) -> str:
    """Returns a digest of what objects were built of.

    Functions count by their code and by what they enclose; ours count by the release, which is recorded, too. Objects
    count by what their constructors were passed, as far as they keep it; what they learn while they run does not
    count, nor do keys and addresses.

    Example:
        >>> from coe_agents import ThresholdPolicy
        >>> fingerprint(ThresholdPolicy(0.5)) == fingerprint(ThresholdPolicy(0.5)) != fingerprint(ThresholdPolicy(0.4))
        True
    """
    digest = hashlib.sha256()
    for word in _describe(parts, {}):
        digest.update(f"{word}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()


def _describe(value: Any, seen: dict[int, object]) -> Iterator[str]:
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}"
    if id(value) in seen or isinstance(value, SecretStr):
        return
    seen[id(value)] = value  # kept, so that no other object gets its id
    for part in _parts_of(value):
        yield from _describe(part, seen)


def _parts_of(value: Any) -> Iterator[Any]:
    """Yields what an object is made of."""
    if isinstance(value, Mapping):
        for name in sorted(value, key=str):
            yield from _named(name, value[name])
    elif isinstance(value, Set):
        yield from sorted(value, key=repr)
    elif isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, type):
        yield repr(value)
    elif isinstance(value, CodeType):
        yield value.co_code
        yield value.co_names
        yield value.co_consts
    elif isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif hasattr(value, "builder"):  # a compiled graph
        yield value.builder
    elif hasattr(value, "nodes") and hasattr(value, "edges"):
        yield {name: getattr(node, "runnable", None) for name, node in value.nodes.items()}
        yield value.edges
        yield getattr(value, "branches", None)
    else:
        yield from _arguments_of(value)


def _parts_of_function(function: FunctionType) -> Iterator[Any]:
    yield function.__qualname__
    if not function.__module__.startswith("coe_agents."):
        yield function.__code__
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None


def _arguments_of(value: Any) -> Iterator[Any]:
    """Yields the name and the value of each constructor argument that an object keeps."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            part = getattr(value, name)
            is_address = isinstance(part, str) and "://" in part
            if not field.exclude and not is_address:
                yield from _named(name, part)
        return
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        try:
            names = list(inspect.signature(type(value)).parameters)
        except (TypeError, ValueError):  # of classes in C
            return
    for name in names:
        for kept in (name, f"_{name}", *_KEPT_AS.get(name, ())):
            part = getattr(value, kept, _NO_PART)
            # a method may have an argument's name: `ModelAgent.model` is one, and tells nothing of the agent's model
            is_method = isinstance(part, MethodType) and part.__self__ is value
            if part is not _NO_PART and not is_method:
                yield name
                yield part
                break


def _named(name: object, part: Any) -> Iterator[Any]:
    """Yields a field's name and value, but not of a key that is a plain string: a rotated key is no other model."""
    if isinstance(name, str) and isinstance(part, str):
        is_secret = name.lower().endswith(SECRET_ENDS) and len(part) >= SHORTEST_SECRET
        if is_secret:
            return
    yield name
    yield part
