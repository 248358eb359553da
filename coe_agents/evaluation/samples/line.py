"""Owns one line of samples: its fields, and which values are valid.

The rules stand here twice. `_FIELDS` says what is wrong with a line; `usual_line` passes most lines in a fraction of
that time. What it passes is valid as `_FIELDS` has it; what it does not pass may be valid, too.
"""

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from coe_agents.actions import canonical_action
from coe_agents.documents import parse_json
from coe_agents.errors import SamplesError
from coe_agents.types import Response

_NEAR = 0.8
"""How alike a misspelt name is to the right one, by `difflib`; "answerable" is no misspelling of "answer"."""


class Sample(Response):
    """One line: a response, and what is known about it. Unknown fields are kept.

    The `answer` of a line with `calls` and without one is their canonical form.

    Attributes:
        question: What was asked; "" where not known.
        references: Accepted answers; may be empty.
        correct: A verdict in the data; None where there is no verdict.
        tools: The schemas of the tools that the model was shown; None where not known.
    """

    id: str
    question: str
    references: list[str]
    correct: bool | None
    tools: list[dict[str, Any]] | None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    # a number that a double holds exactly: figures are computed with it
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def _is_log_probability(value: Any) -> bool:
    # rounding puts a certain response a little above 0
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e18 <= value <= 1e-6


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


_LARGEST_COUNT = 2**53
_COUNT = "an integer of at least 0, and at most 2**53"
_REQUIRED = object()
# by field: whether a value is valid, what is, and the default; null is valid where it is the default
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str, Any]] = {
    "id": (_is_text, "a string", _REQUIRED),
    "agent": (lambda value: isinstance(value, str) and value != "", "a string that is not empty", _REQUIRED),
    "index": (_is_count, _COUNT, _REQUIRED),
    "text": (_is_text, "a string", _REQUIRED),
    "question": (_is_text, "a string", ""),
    "references": (lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of strings", []),
    "round": (_is_count, _COUNT, 0),
    "answer": (_is_text, "a string or null", None),
    "logprob": (_is_log_probability, "a finite number of at most 0, or null", None),
    "n_tokens": (_is_count, f"{_COUNT}, or null", None),
    "correct": (lambda value: isinstance(value, bool), "true, false or null", None),
    "error": (_is_text, "a string or null", None),
    "calls": (_is_list_of_objects, 'a list of objects with "name" and "args", or null', None),
    "tools": (_is_list_of_objects, "a list of JSON schemas with a name, or null", None),
}


def _nearest(field: str, others: frozenset[str]) -> str | None:
    return next(iter(get_close_matches(field, sorted(others), n=1, cutoff=_NEAR)), None)


def _show(value: Any) -> str:
    try:
        return repr(str(value)[:50])
    except ValueError:  # Python does not write thousands of digits
        return "a huge number"


def parse_line(raw: bytes, path: Path, line: int) -> dict[str, Any]:
    """Returns the JSON object of a line; the file and the number of the line are for messages."""
    try:
        record = parse_json(raw)
    except ValueError as error:
        raise SamplesError(
            f"{path}:{line}: this is not JSON: {error}", hint="Every line is one JSON object; it may have been cut off"
        ) from error
    if not isinstance(record, dict):
        raise SamplesError(
            f"{path}:{line}: this is not a JSON object", hint='Write every line as {"id": ..., "agent": ..., ...}'
        )
    return record


def to_sample(
    record: dict[str, Any], path: Path, line: int, *, on_unknown: Callable[[str, str, str], None] | None = None
) -> Sample:
    """Returns the sample of a line.

    Args:
        record: The object of the line, to which the fields that it lacks are added.
        path: Its file, for messages.
        line: Its number, for messages.
        on_unknown: Called with each unknown field whose name is like that of a field that the line lacks, the place,
            and the name of that field.
    """
    known = _fields_of(tuple(record))
    _check(record, path, line)
    record.update(known.defaults)
    if record["calls"] is not None:
        action = _action_of(record, f"{path}:{line}")
        record["answer"] = action if record["answer"] is None else record["answer"]
    if on_unknown is not None:
        for field, near in known.misspelt:
            on_unknown(field, f"{path}:{line}", near)
    return cast("Sample", record)


_TEXT = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_WHOLE = r"(?:0|[1-9][0-9]{0,14})"
_NUMBER = rf"-?{_WHOLE}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_PATTERNS: Mapping[str, str] = {
    "id": r'"([^"\\\x00-\x1f]*+)"',
    "agent": rf'(?!""){_TEXT}',
    "index": _WHOLE,
    "text": _TEXT,
    "question": _TEXT,
    "references": rf"\[(?:{_TEXT}(?:, ?{_TEXT})*+)?\]",
    "round": _WHOLE,
    "answer": rf"(?:null|{_TEXT})",
    "logprob": rf"(?:null|-{_WHOLE}(?:\.[0-9]++)?(?:e-[0-9]++)?|0(?:\.0)?)",
    "n_tokens": rf"(?:null|{_WHOLE})",
    "correct": "(?:null|true|false)",
    "error": rf"(?:null|{_TEXT})",
    "calls": "null",
    "tools": "null",
}
"""Usual values of each field, all valid as `_FIELDS` has it; an id has no escapes, so that the match is its value."""


@lru_cache(maxsize=64)
def usual_line(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of lines that have these fields in this order, and are valid; its group is the id.

    It takes a quarter of the time of reading the line as JSON.

    Args:
        names: All required fields, and others.
    """
    other = rf"(?:{_TEXT}|{_NUMBER}|null|true|false)"
    fields = [rf"{re.escape(json.dumps(name))}: ?{_PATTERNS.get(name, other)}" for name in names]
    return re.compile(rf"\{{{', ?'.join(fields)}\}}[ \t\r\n]*")


def usual_id(pattern: re.Pattern[str], raw: bytes) -> str | None:
    """Returns the id of a line that matches a pattern of `usual_line`; None if it does not."""
    try:
        found = pattern.fullmatch(raw.decode())
    except UnicodeDecodeError:
        return None
    return None if found is None else found[1]


class _Fields(NamedTuple):
    """What the names of a line's fields tell; the lines of a file mostly have the same.

    Attributes:
        defaults: The values of the others that it lacks.
        misspelt: Each unknown field whose name is like that of a field that it lacks, and the name of that field.
    """

    defaults: dict[str, Any]
    misspelt: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def _fields_of(names: tuple[str, ...]) -> _Fields:
    absent = frozenset(_FIELDS.keys() - set(names))
    alike = [(name, _nearest(name, absent)) for name in names if absent and name not in _FIELDS]
    defaults = {field: default for field, (_, _, default) in _FIELDS.items() if field in absent}
    return _Fields(
        defaults,
        tuple((name, near) for name, near in alike if near is not None),
    )


def _check(record: Mapping[str, Any], path: Path, line: int) -> None:
    """Refuses a line that lacks a required field, or has one that is not valid."""
    for field, (is_valid, expected, default) in _FIELDS.items():
        if field in record:
            value = record[field]
            if value is default is None or is_valid(value):
                continue
            raise SamplesError(
                f'{path}:{line}: "{field}" must be {expected}; got {_show(value)}', hint="Correct it, or omit the line"
            )
        if default is _REQUIRED:
            near = _nearest(field, frozenset(record.keys() - _FIELDS.keys()))
            hint = f'Rename "{near}", or add it' if near else "Add it"
            raise SamplesError(f'{path}:{line}: "{field}" is missing', hint=f"{hint}; it is {expected}")


def _action_of(record: Mapping[str, Any], place: str) -> str:
    """Returns the canonical form of a line's calls."""
    try:
        return canonical_action(record["calls"], tools=record["tools"])
    except (TypeError, ValueError) as error:
        raise SamplesError(
            f'{place}: "calls" and "tools" must be readable as an action; {error}',
            hint='A proposal that nothing could run is a failure: set "calls" to null, and "error" to what was wrong',
        ) from error
