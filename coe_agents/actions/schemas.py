"""Owns the reading of tools' JSON schemas, in the dialects in which they come.

Nothing is validated: a schema that says something unknown is read as if it did not say it, since the only question is
which values are equal.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.checks import several

_MAX_REFERENCES = 16
_MAX_PARTS = 64
_ALTERNATIVES = ("anyOf", "oneOf")
_COMPOSED = ("$ref", "allOf", *_ALTERNATIVES)
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
    """Returns the schema of each tool's arguments, by the tool's name with "_" for "."; of equal names the last.

    Raises:
        TypeError: See `read_tools`.
    """
    return {name.replace(".", "_"): stated for name, stated in read_tools(tools)}


def read_tools(tools: Sequence[Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns each tool's name and the schema of its arguments.

    Raises:
        TypeError: Something is not a tool: neither a LangChain tool nor a schema with a name.
    """
    several(tools, '"tools"', of="tools", advice="Wrap a single tool in a list")
    found = list[tuple[str, Mapping[str, Any]]]()
    for tool in tools:
        schema = tool if isinstance(tool, Mapping) else _schema_of(tool)
        own = schema.get("function", schema)
        name = own.get("name", own.get("title")) if isinstance(own, Mapping) else None
        if not isinstance(name, str):
            raise TypeError(f"a tool must have a name; got {tool!r:.200}. Pass a LangChain tool or its JSON schema")
        # where OpenAI, Anthropic and MCP have the arguments; a schema that is titled has them at its top
        stated = next((own[key] for key in ("parameters", "input_schema", "inputSchema") if key in own), own)
        found.append((name, stated if isinstance(stated, Mapping) else {}))
    return found


def resolve(schema: Any, value: Any, root: Any) -> Mapping[str, Any]:
    """Returns what a schema says about a value, by itself, by references, and by alternatives, its own words first.

    Of alternatives the first one counts that the value fits: by its type, and by the constants that tell objects apart.
    """
    found: dict[str, Any] = {}
    pending = [schema]
    for _ in range(_MAX_PARTS):
        if not pending:
            break
        part = pending.pop(0)
        if not isinstance(part, Mapping):
            continue
        for key, stated in part.items():
            if key == "properties" and isinstance(stated, Mapping) and isinstance(found.get(key), Mapping):
                found[key] = {**stated, **found[key]}
            elif key not in _COMPOSED:
                found.setdefault(key, stated)
        if "$ref" in part:
            pending.append(_target(part["$ref"], root))
        pending += [_alternative(part[key], value, root) for key in _ALTERNATIVES if isinstance(part.get(key), list)]
        pending += part["allOf"] if isinstance(part.get("allOf"), list) else []
    return found


def _schema_of(tool: Any) -> Mapping[str, Any]:
    """Returns the schema of a LangChain tool, without importing LangChain."""
    arguments = getattr(tool, "tool_call_schema", None)
    if arguments is None or not isinstance(getattr(tool, "name", None), str):
        raise TypeError(f"a tool must have a name; got {tool!r:.200}. Pass a LangChain tool or its JSON schema")
    parameters = arguments if isinstance(arguments, Mapping) else arguments.model_json_schema()
    return {"name": tool.name, "parameters": parameters}


def _target(reference: Any, root: Any) -> Any:
    found = root
    for part in str(reference).removeprefix("#").split("/")[1:]:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _alternative(options: Sequence[Any], value: Any, root: Any) -> Any:
    """Returns the alternative that a value fits, or the first one of its type."""
    followed = [_follow(option, root) for option in options]
    of_type = [option for option in followed if _is_of_type(option, value)]
    return next((option for option in of_type if _has_constants(option, value)), of_type[0] if of_type else {})


def _follow(option: Any, root: Any) -> Any:
    for _ in range(_MAX_REFERENCES):
        if not isinstance(option, Mapping) or "$ref" not in option:
            return option
        option = _target(option["$ref"], root)
    return {}


def _is_of_type(option: Any, value: Any) -> bool:
    stated = option.get("type") if isinstance(option, Mapping) else None
    names = stated if isinstance(stated, list) else [stated]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES.get(str(name), object)) for name in names)


def _has_constants(option: Any, value: Any) -> bool:
    """Whether a value is among those that an alternative lists, and so are the fields of an object."""
    if not isinstance(option, Mapping):
        return True
    if "const" in option and option["const"] != value:
        return False
    if isinstance(option.get("enum"), list) and value not in option["enum"]:
        return False
    fields = option.get("properties")
    if not isinstance(value, Mapping) or not isinstance(fields, Mapping):
        return True
    required = option.get("required")
    if isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required):
        return False
    return all(
        _has_constants({key: own[key] for key in ("const", "enum") if key in own}, value[name])
        for name, own in fields.items()
        if isinstance(own, Mapping) and name in value
    )
