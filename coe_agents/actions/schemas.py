"""Owns the reading of tools' JSON schemas, in the dialects in which they come."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coe_agents.checks import several

Reading = list[Mapping[str, Any]]
"""The parts of a schema that all hold for a value: without references, "allOf" and alternatives."""
Work = Callable[[int], None]
"""Is called with the size of each step, and raises a ValueError to end what takes too long."""

MAX_READINGS = 1024
_MAX_REFERENCES = 64
_MAX_NAME = 256
_MAX_PATTERN = 64
_OF_A_CHARACTER = 500
"""The work of compiling a character of a pattern: "\\w" alone is a table of seven hundred ranges."""
_OF_AN_ITEM = 4
"""The work of comparing a value with an item of a list."""
_NOT_MATCHED = re.compile(r"\(\?|\{|\\[^\WdDsSwW]|&&|--|~~|\[[^\]]*\[")
"""What patterns may hold that linear matching does not have, or that other engines read differently."""
_ALTERNATIVES = ("anyOf", "oneOf")
_LISTS = ("required", "enum", "allOf", *_ALTERNATIVES)
_FIELDS = ("properties", "patternProperties", "$defs", "definitions")
"""The keywords of a schema that hold a list, and those that hold a schema by name."""
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": Mapping,
    "dict": Mapping,
    "array": (list, tuple),
    "list": (list, tuple),
    "tuple": (list, tuple),
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
    "float": (int, float),
}


def _unbounded(_: int) -> None: ...


def find_parameters(tools: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the schema of each tool's arguments, by the tool's name with "_" for "."; of equal names the last."""
    return {name.replace(".", "_"): stated for name, stated in read_tools(tools)}


def read_tools(tools: Sequence[Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns each tool's name and the schema of its arguments."""
    several(tools, '"tools"', of="tools", advice="Wrap a single tool in a list")
    named = list[tuple[str, Mapping[str, Any]]]()
    for tool in tools:
        schema: Mapping[str, Any] = tool if isinstance(tool, Mapping) else _schema_of(tool)
        # OpenAI has name and arguments one level down
        function = schema.get("function", schema)
        name = None
        if isinstance(function, Mapping):
            name = function.get("name", function.get("title"))
        if not isinstance(name, str):
            raise TypeError(
                f"a tool must have a name; got {tool!r:.200}. Pass a LangChain tool or its JSON schema"
            )
        # where OpenAI, Anthropic and MCP have the arguments; a schema that is titled has them at its top
        stated: Any = function
        for key in ("inputSchema", "input_schema", "parameters"):
            stated = function.get(key, stated)
        named.append((name, stated if isinstance(stated, Mapping) else {}))
    return named


def readings(schema: Any, root: Any, work: Work, within: tuple[int, ...] = ()) -> list[Reading]:
    """Returns every way to read a schema: one for each choice among its alternatives.

    References point into `root`; one that leads in a circle, or nowhere, says nothing. `within` are the ids of the
    schemas around this one.
    """
    work(0)
    if not isinstance(schema, Mapping) or id(schema) in within:
        return [[]]
    if len(within) > _MAX_REFERENCES:
        raise ValueError(
            f"a schema must lead from reference to reference at most {_MAX_REFERENCES} times. Simplify it"
        )
    within = (*within, id(schema))

    # of each, one option holds besides the schema itself
    choices = list[list[Any]]()
    if "$ref" in schema:
        work(len(str(schema["$ref"])))
        choices.append([_target(schema["$ref"], root)])
    for part in _list(schema, "allOf"):
        choices.append([part])
    for key in _ALTERNATIVES:
        options = _list(schema, key)
        if options:
            choices.append(options)

    combined: list[Reading] = [[schema]]
    for options in choices:
        ways = list[Reading]()
        for option in options:
            ways += readings(option, root, work, within)
            if len(combined) * len(ways) > MAX_READINGS:
                raise ValueError(
                    f"a schema must have at most {MAX_READINGS} alternatives; got more. Simplify the tool"
                )
        # their lengths multiply, too: parts of parts are doubled by each "allOf" that refers twice to the next
        n_parts_combined = sum(map(len, combined))
        n_parts_of_ways = sum(map(len, ways))
        work(len(ways) * n_parts_combined + len(combined) * n_parts_of_ways)
        combined = [[*reading, *way] for reading in combined for way in ways]
    return combined


def check_schema(schema: Any, *, where: str = "it") -> None:
    """Refuses what is no JSON schema.

    Raises:
        ValueError: A keyword has something of the wrong kind, an unknown type, or a reference that leads nowhere.

    Example:
        >>> check_schema({"properties": {"to": {"type": "text"}}})
        Traceback (most recent call last):
        ...
        ValueError: "type" in to is no type of JSON
    """
    _check_part(schema, schema, where)


def _check_part(schema: Any, root: Any, where: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise ValueError(f"{where[:_MAX_NAME]} is no schema")
    _check_keywords(schema, root, where[:_MAX_NAME])
    for name in ("allOf", *_ALTERNATIVES):
        for part in schema.get(name, ()):
            _check_part(part, root, where)
    for name in _FIELDS:
        for field, part in schema.get(name, {}).items():
            _check_part(part, root, str(field))
    for name in ("items", "additionalProperties"):
        for part in _one_or_several(schema, name):
            _check_part(part, root, where)


def _check_keywords(schema: Mapping[str, Any], root: Any, where: str) -> None:
    for name in _one_or_several(schema, "type"):
        if not isinstance(name, str) or name not in _TYPES:
            raise ValueError(f'"type" in {where} is no type of JSON')
    if "$ref" in schema and _target(schema["$ref"], root) is None:
        raise ValueError(f'"$ref" in {where} leads nowhere')
    for name in _LISTS:
        if not isinstance(schema.get(name, []), list):
            raise ValueError(f'"{name}" in {where} is no list')
    for name in _FIELDS:
        if not isinstance(schema.get(name, {}), Mapping):
            raise ValueError(f'"{name}" in {where} is no object')


def fits(part: Mapping[str, Any], value: Any, work: Work = _unbounded) -> bool:
    """Whether a value has the type of one part of a schema, is among what it lists, and has what it requires."""
    names = _one_or_several(part, "type")
    listed = part.get("enum")
    required = _list(part, "required")
    n_listed = len(listed) if isinstance(listed, list) else 0
    work(_OF_AN_ITEM * (len(names) + len(required) + n_listed))

    if names and not any(_is_of(str(name), value) for name in names):
        return False
    if "const" in part and not _equal(part["const"], value, work):
        return False
    if isinstance(listed, list) and not any(_equal(item, value, work) for item in listed):
        return False
    if isinstance(value, Mapping):
        return all(name in value for name in required)
    return True


class Patterns:
    """Matches the patterns of schemas, which come from outside, within a budget of work.

    Python's own engine may take hours for thirty characters. This one takes time in proportion to the name; it has no
    look-around and no references back. Repetition by a number would be compiled into as many copies.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._compiled: dict[str, Any] = {}

    def match(self, pattern: Any, name: str) -> bool | None:
        """Whether a pattern matches a name; an invalid one matches nothing. None where that is not known."""
        if not isinstance(pattern, str):
            return False
        self.work(len(pattern))
        if len(pattern) > _MAX_PATTERN or _NOT_MATCHED.search(pattern):
            return None
        if pattern not in self._compiled:
            self.work(_OF_A_CHARACTER * len(pattern))
            self._compiled[pattern] = _compile(pattern)
        self.work(len(pattern) * len(name) // 8)
        compiled = self._compiled[pattern]
        return compiled is not None and bool(compiled.isinstance_python(name))


def _compile(pattern: str) -> Any:
    """Returns pydantic's validator of texts that a pattern matches; None of an invalid pattern."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


def schemas_of(name: str, reading: Reading, patterns: Patterns | None = None) -> list[Any] | None:
    """Returns what a reading says about a field of an object; None if it states fields, but not this one."""
    patterns = patterns or Patterns(_unbounded)
    patterns.work(_OF_AN_ITEM * len(reading))
    schemas = list[Any]()
    states_fields = False
    for part in reading:
        schemas += _schemas_in(part, name, patterns)
        has_properties = isinstance(part.get("properties"), Mapping)
        allows_no_others = part.get("additionalProperties") is False
        states_fields |= has_properties or allows_no_others
    if states_fields and not schemas:
        return None
    return schemas


def _schemas_in(part: Mapping[str, Any], name: str, patterns: Patterns) -> list[Any]:
    """Returns what one part of a schema says about a field."""
    schemas = []
    properties = _mapping(part, "properties")
    if name in properties:
        schemas.append(properties[name])
    for pattern, schema in _mapping(part, "patternProperties").items():
        is_matched = patterns.match(pattern, name)
        if is_matched is None:
            schemas.append({"anyOf": [schema, {}]})
        elif is_matched:
            schemas.append(schema)
    if schemas:
        return schemas

    # whether the condition of a branch holds is not known
    conditional = []
    dependent = _mapping(part, "dependentSchemas").values()
    for branch in (part.get("then"), part.get("else"), *dependent):
        if isinstance(branch, Mapping):
            fields = _mapping(branch, "properties")
            if name in fields:
                conditional.append(fields[name])
    if conditional:
        return [{"anyOf": [*conditional, {}]}]

    additional = part.get("additionalProperties", False)
    return [] if additional is False else [additional]


def stated_fields(reading: Reading) -> list[str]:
    """Returns the fields that a reading names."""
    names = dict[str, None]()
    for part in reading:
        names |= dict.fromkeys(_mapping(part, "properties"))
    return list(names)


def _schema_of(tool: Any) -> Mapping[str, Any]:
    """Returns the schema of a LangChain tool, without importing LangChain; {} of anything else."""
    arguments = getattr(tool, "tool_call_schema", None)
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        # the second is of pydantic 1
        to_schema = getattr(arguments, "model_json_schema", None) or arguments.schema
        arguments = to_schema()
    return {"name": tool.name, "parameters": arguments}


def _target(reference: Any, root: Any) -> Any:
    """Returns the part of a schema that a reference names; None of another document, or of what is not there."""
    document, *parts = str(reference).split("/")
    if document != "#":
        return None
    target = root
    for part in parts:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = target.get(key)
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


def _is_of(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean" or name not in _TYPES
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _equal(a: Any, b: Any, work: Work) -> bool:
    """Whether two JSON values are equal; True is not 1."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        work(len(a))
        if len(a) != len(b):
            return False
        return all(_equal(item, other, work) for item, other in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        work(len(a))
        if a.keys() != b.keys():
            return False
        return all(_equal(value, b[name], work) for name, value in a.items())
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _one_or_several(schema: Mapping[str, Any], key: str) -> list[Any]:
    """Returns what a keyword has that may have one value or a list of them; [] without it."""
    stated = schema.get(key, [])
    return stated if isinstance(stated, list) else [stated]


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    stated = schema.get(key)
    if not isinstance(stated, list | tuple):
        return []
    return list(stated)


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    stated = schema.get(key)
    return stated if isinstance(stated, dict | Mapping) else {}
