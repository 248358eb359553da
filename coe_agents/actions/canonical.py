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
    lines = []
    for call in calls:
        written = _canonical(call, parameters, parsers, room, must_declare=must_declare)
        lines.append(to_line(written))
    action = f"[{','.join(sorted(lines))}]"
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
    if len(action) > MAX_CHARS:
        return None
    try:
        calls = parse_json(action, is_strict=True)
    except ValueError:
        return None
    if not isinstance(calls, list):
        return None
    read = []
    for call in calls:
        match call:
            case {"name": str(name), "args": dict()} if name:
                if not isinstance(call.get("exact", []), list):
                    return None
                read.append({**call, "name": tool_key(name)})
            case _:
                return None
    return read


def tool_key(name: str) -> str:
    """Returns a tool's name as actions contain it."""
    return name.replace(".", "_")


def to_line(value: Any) -> str:
    """Returns a value as one line of JSON. Lines tell 1 from 1.0 and from true, which Python's `==` does not."""
    if type(value) is int:
        return repr(value)  # the same, and faster: most values are short
    return _ENCODER.encode(value)


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
    match call:
        case {"name": str(name), "args": Mapping() as args} if name:
            return name, args
    raise TypeError(
        f'a call must have a "name" and a mapping "args"; got {call!r:.200}. Pass what the model called'
    )


def _canonical(
    call: object,
    parameters: Mapping[str, Any],
    parsers: Mapping[str, Parser],
    room: Room,
    *,
    must_declare: bool,
) -> dict[str, Any]:
    written, call_args = read_call(call)
    name = tool_key(written)
    form = _Form(parameters.get(name, {}), room)
    args = copy_json(call_args)
    if must_declare:
        undeclared = form.find_undeclared(args)
        if undeclared is not None:
            raise ValueError(
                f'the proposal gives "{written}" the argument {undeclared[:80]!r}, which it does not have'
            )
    if name in parsers:
        canonical: Any = copy_json(parsers[name](args), most=3 * MAX_DEPTH)
    else:
        canonical = form.of_call(args)
    exact = []
    for argument, value in sorted(canonical.items()):
        if isinstance(value, str) and form.is_fixed(argument):
            exact.append(argument)
    if not exact:
        return {"name": name, "args": canonical}
    return {"name": name, "args": canonical, "exact": exact}


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
        copied = {}
        for name, inner in value.items():
            is_plain = type(inner) in _PLAIN
            copied[name] = inner if is_plain else copy_json(inner, most=most, depth=depth + 1)
        return copied
    if isinstance(value, list | tuple):
        return [copy_json(inner, most=most, depth=depth + 1) for inner in value]
    raise TypeError(f"arguments must be JSON values; got {type(value).__name__}. Convert it")


class _Form:
    """The canonical form of the arguments of one call under the JSON schema of its tool."""

    def __init__(self, root: Mapping[str, Any], room: Room) -> None:
        self._root = root
        self._room = room
        self._patterns = Patterns(room.take)
        # both by id: every schema that is read is kept, and so is every value, as long as this is
        self._readings: dict[int, tuple[Any, list[Reading]]] = {}
        self._known: dict[tuple[int, int], Any] = {}
        self._joined: dict[tuple[int, ...], Any] = {}
        self._stated: dict[tuple[str, int], list[Any] | None] = {}

    def find_undeclared(self, args: Mapping[str, Any]) -> str | None:
        """Returns the first argument, by name, that the schema neither declares nor allows; None without one."""
        ways = self.ways(self._root)
        for name in sorted(args):
            if all(self._schemas_of(name, way) is None for way in ways):
                return name
        return None

    def of_call(self, args: dict[str, Any]) -> Any:
        """Returns the arguments with defaults, and numbers by value."""
        if not self._root:
            return _by_value(args)
        return self._of(args, self._root, is_strict=False)

    def is_fixed(self, name: str) -> bool:
        """Whether the schema fixes the text of an argument."""
        stated = list[Any]()
        for way in self.ways(self._root):
            stated += self._schemas_of(name, way) or ()
        for schema in stated:
            for way in self.ways(schema):
                self._room.take(len(way))
                for part in way:
                    if any(key in part for key in _FIXED):
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
        form = self._known[key][0]
        if isinstance(form, _MisfitError) and not is_strict:
            raise _DoubtError(
                "a value fits none of the alternatives in the tool's schema. Refuse the proposal"
            )
        if isinstance(form, Exception):
            raise form
        return form

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
            pairs = {}
            for place, item in enumerate(value):
                pairs[place] = item, self._join(item_schemas(place, way))
            return list(self._all(pairs, is_strict=is_strict).values())
        return _by_value(value)

    def _fields(self, fields: dict[str, Any], way: Reading, *, is_strict: bool) -> Any:
        pairs = {}
        # else an alternative may be the one that runs though it does not name a field that is passed
        is_closed = is_strict and any(part.get("additionalProperties") is False for part in way)
        for name, value in fields.items():
            stated = self._schemas_of(name, way)
            if stated is None and is_closed:
                raise _MisfitError
            self._room.take(len(name))
            pairs[name] = value, self._join(stated)
        form = self._all(pairs, is_strict=is_strict)
        for name in stated_fields(way):
            self._room.take(_STEP)
            if name not in fields:
                form |= self._default(name, way)
        return form

    def _all(self, pairs: dict[Any, tuple[Any, Any]], *, is_strict: bool) -> dict[Any, Any]:
        """Returns the forms of values under their schemas; a misfit among them comes before a doubt."""
        forms = {}
        doubt = None
        for key, (value, schema) in pairs.items():
            try:
                forms[key] = self._of(value, schema, is_strict=is_strict)
            except _DoubtError as error:
                doubt = error
        if doubt is not None:
            raise doubt
        return forms

    def _default(self, name: str, way: Reading) -> dict[str, Any]:
        """Returns the default of a field that is left out, by its name; {} without one.

        It is compared as it is stated: many servers pass it on without filling in the defaults inside it.
        """
        default: dict[str, Any] = {}
        lines = set()
        for schema in self._schemas_of(name, way) or []:
            if isinstance(schema, Mapping) and "default" in schema:
                parts = [schema]
            else:
                parts = _common_parts(self.ways(schema))
            for part in parts:
                if "default" not in part:
                    continue
                default[name] = _by_value(copy_json(part["default"]))
                line = to_line(default[name])
                lines.add(line)
                self._room.take(len(name) + len(line))
        if len(lines) > 1:
            raise _DoubtError(
                f"the tool's schema states several defaults of {name[:80]!r}. Refuse the proposal"
            )
        return default

    def _join(self, stated: list[Any] | None) -> Any:
        if not stated:
            return None
        if len(stated) == 1:
            return stated[0]
        return self._joined.setdefault(tuple(map(id, stated)), {"allOf": stated})


def _common_parts(ways: Sequence[Reading]) -> Reading:
    """Returns the parts of a schema that hold whichever of its alternatives does."""
    common = set(map(id, ways[0]))
    for way in ways[1:]:
        common &= set(map(id, way))
    return [part for part in ways[0] if id(part) in common]


def _by_value(value: Any) -> Any:
    """Returns a JSON value in which 1.0 is 1."""
    if isinstance(value, dict):
        by_value = {}
        for name, inner in value.items():
            by_value[name] = inner if type(inner) in _PLAIN else _by_value(inner)
        return by_value
    if isinstance(value, list):
        return list(map(_by_value, value))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


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
