"""Owns the canonical form of an action: one line of JSON, equal for tool calls that do the same."""

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from coe_agents.actions.schemas import find_parameters, resolve
from coe_agents.checks import several

MAX_CHARS = 100_000
"""An action whose canonical form is longer is refused."""
MAX_DEPTH = 32
"""Arguments that are nested deeper are refused."""


def canonical_action(calls: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None) -> str:
    """Returns one line of JSON that is equal for equal actions.

    Calls are equal if their tools and arguments are. Arguments are compared by the tool's JSON schema:

    - An argument that is left out has the `default` of the schema, if that states one.
    - Numbers count by value, to 9 decimals: 1 and 1.0 are equal. No string equals a number, no boolean either.
    - Strings are equal but for case and white space. Where the schema has an `enum` or a `const`, they are compared as
      they are.
    - The keys of objects have no order, nor have the items of an array whose schema says `uniqueItems`.
    - In a tool's name "." is "_", since several providers forbid dots.

    Several calls are one action; their order does not count, repetitions do.

    Args:
        calls: Each with a "name" and "args"; other fields, such as "id", are ignored. Empty: the action of calling
            nothing, "[]".
        tools: LangChain tools, OpenAI's function schemas or bare ones (`name`, `parameters`). Calls of a tool that is
            not among them are compared without a schema.

    Raises:
        TypeError: A call has no name, or its arguments are not JSON values.
        ValueError: A number is not finite, or the action is longer than 100,000 characters or nested deeper than 32
            levels.

    Example:
        >>> pay = {"name": "pay", "parameters": {"properties": {"unit": {"type": "string", "default": "EUR"}}}}
        >>> canonical_action([{"name": "pay", "args": {"to": " Ann", "sum": 5.0}}], tools=[pay])
        '[{"args":{"sum":5,"to":"ann","unit":"eur"},"name":"pay"}]'
    """
    several(calls, '"calls"', of="calls", advice="Wrap a single call in a list")
    parameters = find_parameters(tools or ())
    room = _Room()
    action = f"[{','.join(sorted(_line(call, parameters, room) for call in calls))}]"
    if len(action) > MAX_CHARS:
        raise ValueError(f"an action must have at most {MAX_CHARS} characters; got {len(action)}. Refuse the proposal")
    return action


def tool_key(name: str) -> str:
    """Returns a tool's name as actions contain it."""
    return name.replace(".", "_")


def to_line(value: Any) -> str:
    """Returns a canonical value as one line of JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class _Room:
    """The characters that an action may still have; defaults may multiply along references before it is written."""

    def __init__(self) -> None:
        self._left = MAX_CHARS

    def take(self, n_chars: int) -> None:
        self._left -= n_chars
        if self._left < 0:
            raise ValueError(f"an action must have at most {MAX_CHARS} characters; got more. Refuse the proposal")


def canonical_value(value: Any, schema: Any, *, root: Any, room: _Room, depth: int = 0) -> Any:
    """Returns a JSON value in the form in which equal values are equal.

    Args:
        value: The value.
        schema: Its JSON schema; anything but a mapping says nothing.
        root: The schema that references in `schema` point into.
        room: What is left for the action.
        depth: The number of values around it.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"arguments must be nested at most {MAX_DEPTH} levels deep. Refuse the proposal")
    room.take(1)
    schema = resolve(schema, value, root)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value if "enum" in schema or "const" in schema else " ".join(value.casefold().split())
        room.take(len(text))
        return text
    if isinstance(value, Real):
        return _number(value)
    if isinstance(value, Mapping):
        return _fields(value, schema, root=root, room=room, depth=depth)
    if isinstance(value, list | tuple):
        stated = schema.get("prefixItems")
        places = stated if isinstance(stated, list | tuple) else ()
        items = [
            canonical_value(
                item, places[i] if i < len(places) else schema.get("items"), root=root, room=room, depth=depth + 1
            )
            for i, item in enumerate(value)
        ]
        return sorted(items, key=to_line) if schema.get("uniqueItems") else items
    raise TypeError(f"arguments must be JSON values; got {type(value).__name__}. Convert it")


def _line(call: object, parameters: Mapping[str, Any], room: _Room) -> str:
    name, args = (call.get("name"), call.get("args")) if isinstance(call, Mapping) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(args, Mapping):
        raise TypeError(
            f'a call must have a "name" and a mapping "args"; got {call!r:.200}. Pass what the model called'
        )
    schema = parameters.get(tool_key(name), {})
    return to_line({"name": tool_key(name), "args": canonical_value(args, schema, root=schema, room=room)})


def _fields(
    given: Mapping[Any, Any], schema: Mapping[str, Any], *, root: Any, room: _Room, depth: int
) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in given):
        raise TypeError("the names of arguments must be strings. Convert them")
    stated = schema.get("properties")
    known: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    defaults = {name: own["default"] for name, own in known.items() if isinstance(own, Mapping) and "default" in own}
    room.take(sum(map(len, {**defaults, **given})))
    return {
        name: canonical_value(
            value, known.get(name, schema.get("additionalProperties")), root=root, room=room, depth=depth + 1
        )
        for name, value in {**defaults, **given}.items()
    }


def _number(value: Real) -> int | float:
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"numbers must be finite; got {number}. Refuse the proposal")
    rounded = round(number, 9)
    return int(rounded) if rounded.is_integer() else rounded
