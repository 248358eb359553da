"""Owns the reading of tools' JSON schemas, in the dialects in which they come.

Nothing is validated: a schema that says something unknown is read as if it did not say it, since the only question is
which values are equal.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_MAX_REFERENCES = 16
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
    """Returns the schema of each tool's arguments, by the tool's name with "_" for ".".

    Raises:
        TypeError: Something is not a tool: neither a LangChain tool nor a schema with a name.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise TypeError(
            f'"tools" must be a sequence of tools; got {type(tools).__name__}. Wrap a single tool in a list'
        )
    found = {}
    for tool in tools:
        schema = tool if isinstance(tool, Mapping) else _schema_of(tool)
        own = schema.get("function", schema)
        name = own.get("name", own.get("title")) if isinstance(own, Mapping) else None
        if not isinstance(name, str):
            raise TypeError(f"a tool must have a name; got {tool!r:.200}. Pass a LangChain tool or its JSON schema")
        # where OpenAI, Anthropic and MCP have the arguments; a schema that is titled has them at its top
        stated = next((own[key] for key in ("parameters", "input_schema", "inputSchema") if key in own), own)
        found[name.replace(".", "_")] = stated if isinstance(stated, Mapping) else {}
    return found


def resolve(schema: Any, value: Any, root: Any) -> Mapping[str, Any]:
    """Returns what a schema says about a value: references are followed, and of alternatives the first of its type."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            schema = _target(schema["$ref"], root)
            continue
        options = next((schema[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)), None)
        if not options:
            return schema
        schema = next((option for option in options if _is_of_type(option, value, root)), {})
    return {}


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


def _is_of_type(option: Any, value: Any, root: Any) -> bool:
    option = resolve(option, value, root) if isinstance(option, Mapping) and "$ref" in option else option
    stated = option.get("type") if isinstance(option, Mapping) else None
    names = stated if isinstance(stated, list) else [stated]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES.get(str(name), object)) for name in names)
