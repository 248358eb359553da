"""Owns the canonical form of an action: one line of JSON, equal for tool calls that do the same."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from coe_agents.actions.schemas import (
    Patterns,
    Reading,
    find_parameters,
    fits,
    readings,
    schemas_of,
    stated_fields,
)
from coe_agents.checks import several
from coe_agents.files import parse_json

MAX_CHARS = 100_000
"""An action whose canonical form is longer is refused."""
MAX_DEPTH = 32
"""Arguments that are nested deeper are refused."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_FIXED = ("enum", "const", "format")
"""What says in a schema what a text may be."""
_PLAIN = (str, int, bool, type(None))
"""The types of most values, which are their own canonical form and copy."""
_STEP = 8
"""The characters that a step of work counts as: it bounds the time, too."""

Parser = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Returns the arguments as a tool's function would receive them, as JSON values; raises ValueError if it would not."""


def canonical_action(
    calls: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Any] | None = None,
    parsers: Mapping[str, Parser] | None = None,
) -> str:
    """Returns one line of JSON that is equal for equal actions: those that would run exactly alike.

    Calls are equal if their tools and arguments are. Case, white space, order and every digit count. Where a tool has a
    parser, the parsed values are compared. Otherwise the JSON is, by the tool's JSON schema:

    - An argument that is left out has the `default` of the schema, if that states one.
    - Numbers count by value: 1 and 1.0 are equal, and -0.0 is 0. No string equals a number, no boolean either.
    - The keys of objects have no order.
    - In a tool's name "." is "_", since several providers forbid dots.

    Several calls are one action; their order does not count, repetitions do. The names of arguments whose text the
    schema fixes, by "enum", "const" or "format", stand in "exact": no rule loosens these.

    Args:
        calls: Each with a "name" and "args"; other fields, such as "id", are ignored. Empty: the action of calling
            nothing, "[]".
        tools: LangChain tools, OpenAI's function schemas or bare ones (`name`, `parameters`). Calls of a tool that is
            not among them are compared without a schema.
        parsers: By the tool's name, with "_" for ".".

    Raises:
        TypeError: A call has no name, or its arguments are not JSON values.
        ValueError: A number is not finite; a value fits several alternatives of the schema with different results, or
            none; a parser refuses the arguments; or the action is longer than 100,000 characters, nested deeper than 32
            levels, or takes too much work to read.

    Example:
        >>> pay = {"name": "pay", "parameters": {"properties": {"unit": {"type": "string", "default": "EUR"}}}}
        >>> canonical_action([{"name": "pay", "args": {"to": "Ann", "sum": 5.0}}], tools=[pay])
        '[{"args":{"sum":5,"to":"Ann","unit":"EUR"},"name":"pay"}]'
    """
    return write_action(calls, find_parameters(tools) if tools else {}, parsers or {})


def write_action(
    calls: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Mapping[str, Any]],
    parsers: Mapping[str, Parser],
    *,
    must_declare: bool = False,
) -> str:
    """Returns the canonical form of calls; see `canonical_action`.

    `parameters` are as `find_parameters` returns them; `must_declare`: whether an argument is refused that the tool's
    schema neither declares nor allows.
    """
    several(calls, '"calls"', of="calls", advice="Wrap a single call in a list")
    room = Room()
    written = (
        _canonical(call, parameters, parsers, room, must_declare=must_declare) for call in calls
    )
    action = f"[{','.join(sorted(map(to_line, written)))}]"
    if len(action) > MAX_CHARS:
        raise ValueError(
            f"an action must have at most {MAX_CHARS} characters; got {len(action)}. Refuse the proposal"
        )
    return action


def read_action(action: str) -> list[dict[str, Any]] | None:
    """Returns the calls of a canonical action, each with "name" and "args"; None of another text.

    Example:
        >>> read_action('[{"args":{},"name":"pay"}]'), read_action("[]"), read_action("Paris")
        ([{'args': {}, 'name': 'pay'}], [], None)
    """
    try:
        calls = parse_json(action, is_strict=True) if len(action) <= MAX_CHARS else None
    except ValueError:
        return None
    if not isinstance(calls, list):
        return None
    for call in calls:
        match call:
            case {"name": str(name), "args": dict()} if name and isinstance(
                call.get("exact", []), list
            ):
                continue
        return None
    return [{**call, "name": tool_key(call["name"])} for call in calls]


def tool_key(name: str) -> str:
    """Returns a tool's name as actions contain it."""
    return name.replace(".", "_")


def to_line(value: Any) -> str:
    """Returns a value as one line of JSON. Lines tell 1 from 1.0 and from true, which Python's `==` does not."""
    return repr(value) if type(value) is int else _ENCODER.encode(value)  # mostly a short value


class Room:
    """The work that an action may still take; defaults may multiply along references before it is written."""

    def __init__(self) -> None:
        self._left = _STEP * MAX_CHARS

    def take(self, n_chars: int = 0) -> None:
        self._left -= _STEP + n_chars
        if self._left < 0:
            raise ValueError(
                f"an action must have at most {MAX_CHARS} characters, and take no more work to read; got more. "
                "Refuse the proposal"
            )


class _MisfitError(Exception):
    """No alternative of the schema allows a value."""


class _DoubtError(ValueError):
    """A value fits several alternatives differently, or none."""


def read_call(call: object) -> tuple[str, Mapping[str, Any]]:
    """Returns the name and the arguments of a call."""
    name, args = (call.get("name"), call.get("args")) if isinstance(call, Mapping) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(args, Mapping):
        raise TypeError(
            f'a call must have a "name" and a mapping "args"; got {call!r:.200}. Pass what the model called'
        )
    return name, args


def _canonical(
    call: object,
    parameters: Mapping[str, Any],
    parsers: Mapping[str, Parser],
    room: Room,
    *,
    must_declare: bool,
) -> dict[str, Any]:
    written, args = read_call(call)
    name = tool_key(written)
    form = _Form(parameters.get(name, {}), room)
    given = copy_json(args)
    if must_declare and (unknown := form.find_undeclared(given)) is not None:
        raise ValueError(
            f'the proposal gives "{written}" the argument {unknown[:80]!r}, which it does not have'
        )
    found: Any = (
        form.of_call(given)
        if name not in parsers
        else copy_json(parsers[name](given), most=3 * MAX_DEPTH)
    )
    exact = [
        one for one, value in sorted(found.items()) if isinstance(value, str) and form.is_fixed(one)
    ]
    return {"name": name, "args": found, **({"exact": exact} if exact else {})}


def copy_json(value: Any, *, most: int = MAX_DEPTH, depth: int = 0) -> Any:
    """Returns a copy of a JSON value of at most `most` levels, in plain types: -0.0 is 0.0, tuples are arrays."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"numbers must be finite; got {number}. Refuse the proposal")
        return number + 0.0
    if depth >= most:
        raise ValueError(
            f"arguments must be nested at most {most} levels deep. Refuse the proposal"
        )
    if isinstance(value, Mapping):
        if not all(issubclass(kind, str) for kind in {*map(type, value)}):
            raise TypeError("the names of arguments must be strings. Convert them")
        return {
            name: own if type(own) in _PLAIN else copy_json(own, most=most, depth=depth + 1)
            for name, own in value.items()
        }
    if isinstance(value, list | tuple):
        return [copy_json(own, most=most, depth=depth + 1) for own in value]
    raise TypeError(f"arguments must be JSON values; got {type(value).__name__}. Convert it")


class _Form:
    """The canonical form of the arguments of one call under the JSON schema of its tool."""

    def __init__(self, root: Mapping[str, Any], room: Room) -> None:
        self._root, self._room = root, room
        self._patterns = Patterns(room.take)
        # both by id: every schema that is read is kept, and so is every value, as long as this is
        self._readings: dict[int, tuple[Any, list[Reading]]] = {}
        self._known: dict[tuple[int, int], Any] = {}
        self._joined: dict[tuple[int, ...], Any] = {}
        self._stated: dict[tuple[str, int], list[Any] | None] = {}

    def find_undeclared(self, args: Mapping[str, Any]) -> str | None:
        """Returns the first argument, by name, that the schema neither declares nor allows; None without one."""
        ways = self.ways(self._root)
        return next(
            (
                name
                for name in sorted(args)
                if all(self._schemas_of(name, way) is None for way in ways)
            ),
            None,
        )

    def of_call(self, args: dict[str, Any]) -> Any:
        """Returns the arguments with defaults, and numbers by value."""
        return self._of(args, self._root, is_strict=False) if self._root else _by_value(args)

    def is_fixed(self, name: str) -> bool:
        """Whether the schema fixes the text of an argument."""
        stated = [
            schema for way in self.ways(self._root) for schema in self._schemas_of(name, way) or ()
        ]
        for way in (way for schema in stated for way in self.ways(schema)):
            self._room.take(len(way))
            if any(key in part for part in way for key in _FIXED):
                return True
        return False

    def ways(self, schema: Any) -> list[Reading]:
        if id(schema) not in self._readings:
            self._readings[id(schema)] = schema, readings(schema, self._root, self._room.take)
        return self._readings[id(schema)][1]

    def _schemas_of(self, name: str, way: Reading) -> list[Any] | None:
        key = (name, id(way))
        if key not in self._stated:
            self._stated[key] = schemas_of(name, way, self._patterns)
        return self._stated[key]

    def _of(self, value: Any, schema: Any, *, is_strict: bool) -> Any:
        """Returns a value under a schema, by the one alternative that it fits.

        `is_strict`: whether a value that the schema does not allow is a misfit. It matters for alternatives alone: the
        tool's own validation checks values.
        """
        ways = self.ways(schema)
        if len(ways) == 1:
            return self._under(value, ways[0], is_strict=is_strict)
        key = (id(value), id(schema))
        if key not in self._known:
            self._known[key] = self._choose(value, ways), value
        found = self._known[key][0]
        if isinstance(found, _MisfitError) and not is_strict:
            found = _DoubtError(
                "a value fits none of the alternatives in the tool's schema. Refuse the proposal"
            )
        if isinstance(found, Exception):
            raise found
        return found

    def _choose(self, value: Any, ways: Sequence[Reading]) -> Any:
        """Returns the form of a value under the alternatives that it fits, or what is wrong."""
        forms: dict[str, Any] = {}
        for way in ways:
            try:
                form = self._under(value, way, is_strict=True)
            except _MisfitError:
                continue
            except _DoubtError as doubt:
                return doubt
            line = to_line(form)
            self._room.take(len(line))
            forms[line] = form
        if len(forms) > 1:
            return _DoubtError(
                "a value fits several alternatives in the tool's schema differently. Refuse the proposal"
            )
        return next(iter(forms.values()), _MisfitError())

    def _under(self, value: Any, way: Reading, *, is_strict: bool) -> Any:
        self._room.take(len(value) if isinstance(value, str) else len(way))
        if is_strict and not all(fits(part, value, self._room.take) for part in way):
            raise _MisfitError
        if isinstance(value, dict):
            return self._fields(value, way, is_strict=is_strict)
        if isinstance(value, list):
            self._room.take(len(value) * len(way))
            pairs = [
                (item, self._join(item_schemas(place, way))) for place, item in enumerate(value)
            ]
            return list(self._all(dict(enumerate(pairs)), is_strict=is_strict).values())
        return _by_value(value)

    def _fields(self, given: dict[str, Any], way: Reading, *, is_strict: bool) -> Any:
        pairs = {}
        # else an alternative may be the one that runs though it does not name a field that is given
        is_closed = is_strict and any(part.get("additionalProperties") is False for part in way)
        for name, value in given.items():
            stated = self._schemas_of(name, way)
            if stated is None and is_closed:
                raise _MisfitError
            self._room.take(len(name))
            pairs[name] = value, self._join(stated or [])
        form = self._all(pairs, is_strict=is_strict)
        for name in stated_fields(way):
            self._room.take(_STEP)
            if name not in given and (found := self._default(name, way)):
                form[name] = found[0]
        return form

    def _all(self, pairs: dict[Any, tuple[Any, Any]], *, is_strict: bool) -> dict[Any, Any]:
        """Returns the forms of values under their schemas; a misfit among them comes before a doubt."""
        forms, doubt = {}, None
        for key, (value, schema) in pairs.items():
            try:
                forms[key] = self._of(value, schema, is_strict=is_strict)
            except _DoubtError as error:
                doubt = error
        if doubt is not None:
            raise doubt
        return forms

    def _default(self, name: str, way: Reading) -> list[Any]:
        """Returns the default of a field that is left out, in a list; [] without one.

        It is compared as it is stated: many servers pass it on without filling in the defaults inside it.
        """
        forms = {}
        for schema in self._schemas_of(name, way) or []:
            parts = [schema]
            if not isinstance(schema, Mapping) or "default" not in schema:
                parts = _common_parts(self.ways(schema))
            for part in parts:
                if "default" in part:
                    form = _by_value(copy_json(part["default"]))
                    forms[line := to_line(form)] = form
                    self._room.take(len(name) + len(line))
        if len(forms) > 1:
            raise _DoubtError(
                f"the tool's schema states several defaults of {name[:80]!r}. Refuse the proposal"
            )
        return list(forms.values())

    def _join(self, stated: list[Any]) -> Any:
        if len(stated) < 2:
            return stated[0] if stated else None
        return self._joined.setdefault(tuple(map(id, stated)), {"allOf": stated})


def _common_parts(ways: Sequence[Reading]) -> Reading:
    """Returns the parts of a schema that hold whichever of its alternatives does."""
    common = set.intersection(*({id(part) for part in way} for way in ways))
    return [part for part in ways[0] if id(part) in common]


def _by_value(value: Any) -> Any:
    """Returns a JSON value in which 1.0 is 1."""
    if isinstance(value, dict):
        return {name: own if type(own) in _PLAIN else _by_value(own) for name, own in value.items()}
    if isinstance(value, list):
        return list(map(_by_value, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def item_schemas(place: int, way: Reading) -> list[Any]:
    """Returns what a reading says about the item of an array at a place."""
    found = []
    for part in way:
        stated = part.get("prefixItems")
        places = stated if isinstance(stated, list | tuple) else ()
        if place < len(places):
            found.append(places[place])
        elif "items" in part:
            found.append(part["items"])
    return found
