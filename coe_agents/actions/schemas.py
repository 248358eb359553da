"""Owns the reading of tools' JSON schemas, in the dialects in which they come."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coe_agents.checks import several

Reading = list[Mapping[str, Any]]
"""The parts of a schema that all hold for a value: without references, "allOf" and alternatives."""
MAX_READINGS = 1024
_MAX_REFERENCES = 64
_MAX_NAME = 256
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


def find_parameters(tools: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the schema of each tool's arguments, by the tool's name with "_" for "."; of equal names the last."""
    return {name.replace(".", "_"): stated for name, stated in read_tools(tools)}


def read_tools(tools: Sequence[Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns each tool's name and the schema of its arguments."""
    several(tools, '"tools"', of="tools", advice="Wrap a single tool in a list")
    found = list[tuple[str, Mapping[str, Any]]]()
    for tool in tools:
        schema: Mapping[str, Any] = tool if isinstance(tool, Mapping) else _schema_of(tool)
        own = schema.get("function", schema)
        name = own.get("name", own.get("title")) if isinstance(own, Mapping) else None
        if not isinstance(name, str):
            raise TypeError(f"a tool must have a name; got {tool!r:.200}. Pass a LangChain tool or its JSON schema")
        # where OpenAI, Anthropic and MCP have the arguments; a schema that is titled has them at its top
        stated = next((own[key] for key in ("parameters", "input_schema", "inputSchema") if key in own), own)
        found.append((name, stated if isinstance(stated, Mapping) else {}))
    return found


def readings(schema: Any, root: Any, work: Callable[[], None], within: tuple[int, ...] = ()) -> list[Reading]:
    """Returns every way to read a schema: one for each choice among its alternatives.

    References point into `root`; one that leads in a circle, or nowhere, says nothing. `work` is called at each step,
    to end what takes too long; `within` are the ids of the schemas around this one.
    """
    work()
    if not isinstance(schema, Mapping) or id(schema) in within:
        return [[]]
    if len(within) > _MAX_REFERENCES:
        raise ValueError(f"a schema must lead from reference to reference at most {_MAX_REFERENCES} times. Simplify it")
    found, within = [[schema]], (*within, id(schema))
    choices = [[_target(schema["$ref"], root)]] if "$ref" in schema else []
    choices += [[part] for part in _list(schema, "allOf")]
    choices += [options for key in _ALTERNATIVES if (options := _list(schema, key))]
    for options in choices:
        ways = [way for option in options for way in readings(option, root, work, within)]
        found = [[*one, *way] for one in found for way in ways]
        if len(found) > MAX_READINGS:
            raise ValueError(f"a schema must have at most {MAX_READINGS} alternatives; got more. Simplify the tool")
    return found


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
    stated = schema.get("type", [])
    names = stated if isinstance(stated, list) else [stated]
    faults = [
        ("type", not all(isinstance(name, str) and name in _TYPES for name in names), "is no type of JSON"),
        ("$ref", "$ref" in schema and _target(schema["$ref"], root) is None, "leads nowhere"),
        *((name, not isinstance(schema.get(name, []), list), "is no list") for name in _LISTS),
        *((name, not isinstance(schema.get(name, {}), Mapping), "is no object") for name in _FIELDS),
    ]
    for name, is_wrong, what in faults:
        if is_wrong:
            raise ValueError(f'"{name}" in {where[:_MAX_NAME]} {what}')
    for part in (part for name in ("allOf", *_ALTERNATIVES) for part in schema.get(name, ())):
        _check_part(part, root, where)
    for name, part in ((name, part) for key in _FIELDS for name, part in schema.get(key, {}).items()):
        _check_part(part, root, str(name))
    for name in {"items", "additionalProperties"} & schema.keys():
        for part in schema[name] if isinstance(schema[name], list) else [schema[name]]:
            _check_part(part, root, where)


def fits(part: Mapping[str, Any], value: Any) -> bool:
    """Whether a value has the type of one part of a schema, is among what it lists, and has what it requires."""
    stated = part.get("type")
    names = stated if isinstance(stated, list) else [] if stated is None else [stated]
    if names and not any(_is_of(str(name), value) for name in names):
        return False
    if ("const" in part and not _equal(part["const"], value)) or (
        isinstance(part.get("enum"), list) and not any(_equal(one, value) for one in part["enum"])
    ):
        return False
    return not isinstance(value, Mapping) or all(name in value for name in _list(part, "required"))


def schemas_of(name: str, reading: Reading) -> list[Any] | None:
    """Returns what a reading says about a field of an object; None if it states fields, but not this one."""
    found, is_declared, states_fields = list[Any](), False, False
    for part in reading:
        own = [properties[name]] if name in (properties := _mapping(part, "properties")) else []
        if "patternProperties" in part:
            patterns = _mapping(part, "patternProperties")
            own += [schema for pattern, schema in patterns.items() if _matches(pattern, name)]
        if not own:
            branches = [part.get("then"), part.get("else"), *_mapping(part, "dependentSchemas").values()]
            stated = [_mapping(branch, "properties") for branch in branches if isinstance(branch, Mapping)]
            if under := [fields[name] for fields in stated if name in fields]:
                own = [{"anyOf": [*under, {}]}]  # whether the condition holds is not known
        if not own and part.get("additionalProperties", False) is not False:
            own = [part["additionalProperties"]]
        found += own
        is_declared |= bool(own)
        states_fields |= isinstance(part.get("properties"), Mapping) or part.get("additionalProperties") is False
    return found if is_declared or not states_fields else None


def stated_fields(reading: Reading) -> list[str]:
    """Returns the fields that a reading names."""
    return list(dict.fromkeys(name for part in reading for name in _mapping(part, "properties")))


def _schema_of(tool: Any) -> Mapping[str, Any]:
    """Returns the schema of a LangChain tool, without importing LangChain; {} of anything else."""
    arguments = getattr(tool, "tool_call_schema", None)
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        arguments = getattr(arguments, "model_json_schema", None) or arguments.schema  # the second of pydantic 1
        arguments = arguments()
    return {"name": tool.name, "parameters": arguments}


def _target(reference: Any, root: Any) -> Any:
    found = root
    for part in str(reference).removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_of(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean" or name not in _TYPES
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal; True is not 1."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(value, b[name]) for name, value in a.items())
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _matches(pattern: Any, name: str) -> bool:
    try:
        return len(name) <= _MAX_NAME and re.search(pattern, name) is not None
    except (re.error, TypeError):
        return False


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    stated = schema.get(key)
    return list(stated) if isinstance(stated, list | tuple) else []


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    stated = schema.get(key)
    return stated if isinstance(stated, dict | Mapping) else {}
