"""Owns structured answers: JSON objects by a schema, which are compared as the arguments of one call are."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from coe_agents.actions.canonical import MAX_CHARS, MAX_DEPTH, Room, copy_json, item_schemas
from coe_agents.actions.schemas import Patterns, Work, fits, readings, schemas_of
from coe_agents.files import parse_json

ANSWER = "structured_answer"
"""The name under which a structured answer is compared; no tool has it."""
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL | re.IGNORECASE)
_MOST_STEPS = 20_000
_SIZE_OF_STEP = 8


def answer_tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the function of which an answer by a schema is the call."""
    return {"type": "function", "function": {"name": ANSWER, "parameters": schema}}


def check_answer_schema(schema: Any, *, where: str, work: Work | None = None) -> dict[str, Any]:
    """Returns a schema of answers.

    Several schemas of one request share the `work`; by default it may take as much as an action.

    Raises:
        TypeError, ValueError: If it is not one of objects, is nested too deep, or takes too much work to read. `where`
            it was given is for the message.
    """
    ways = readings(schema, schema, work or Room().take)
    is_of_object = False
    for way in ways:
        is_of_object |= all(part.get("type", "object") == "object" for part in way)
    if not isinstance(schema, Mapping) or not is_of_object:
        raise TypeError(
            f'{where} must be a JSON schema of an object; got {schema!r:.80}. Add "type": "object"'
        )
    copied: dict[str, Any] = copy_json(schema, most=2 * MAX_DEPTH)
    return copied


def read_structured(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the object that a response consists of, in a fence of Markdown or without one.

    Raises:
        ValueError: If it consists of anything else, or does not fit the schema; see `conforms`.

    Example:
        >>> read_structured('{"city": "Paris"}', {"properties": {"city": {"type": "string"}}})
        {'city': 'Paris'}
    """
    fenced = _FENCE.fullmatch(text)
    plain = fenced[1] if fenced else text.strip()
    answer = None
    if len(text) <= MAX_CHARS:
        with suppress(ValueError):
            answer = parse_json(plain, is_strict=True)
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object, and nothing else")
    if not conforms(answer, schema):
        raise ValueError("the answer does not fit the schema")
    return answer


def conforms(value: Any, schema: Mapping[str, Any]) -> bool:
    """Returns whether a JSON value has what a schema says of types, enumerations, and required and allowed fields.

    Bounds of numbers and lengths, patterns and formats are not looked at: who asked validates them.

    Raises:
        ValueError: If the schema takes too much work to read.

    Example:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
        >>> conforms({"n": 1}, schema), conforms({"n": "1"}, schema), conforms({"m": 1}, schema)
        (True, False, False)
    """
    left = _MOST_STEPS

    def work(size: int) -> None:
        nonlocal left
        left -= 1 + size // _SIZE_OF_STEP
        if left < 0:
            raise ValueError("the schema takes too much work to read")

    patterns = Patterns(work)

    def holds(inner: Any, stated: Any) -> bool:
        return any(_all_fit(inner, way) for way in readings(stated, schema, work))

    def _all_fit(inner: Any, way: Sequence[Mapping[str, Any]]) -> bool:
        if not all(fits(part, inner, work) for part in way):
            return False
        if isinstance(inner, list):
            work(len(inner) * len(way))
            for place, item in enumerate(inner):
                for stated in item_schemas(place, [*way]):
                    if not holds(item, stated):
                        return False
            return True
        work(len(way))
        if not isinstance(inner, dict):
            return True
        is_closed = any(part.get("additionalProperties") is False for part in way)
        for name, field in inner.items():
            schemas = schemas_of(name, [*way], patterns)
            if schemas is None and is_closed:
                return False
            if not all(holds(field, stated) for stated in schemas or ()):
                return False
        return True

    return holds(value, schema)
