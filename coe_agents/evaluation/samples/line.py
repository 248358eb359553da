"""Owns one line of samples: its fields, and which values are valid."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from types import NoneType
from typing import Any, NamedTuple, cast, get_args

from coe_agents.actions import canonical_action
from coe_agents.actions.canonical import read_action
from coe_agents.checks import is_number
from coe_agents.files import parse_json
from coe_agents.types import End, Fields, JsonObject, Sample


def _is_count(value: int) -> bool:
    return 0 <= value <= _LARGEST_COUNT


def _is_log_probability(value: float) -> bool:
    # rounding puts a certain response a little above 0
    return -1e18 <= value <= 1e-6


def _are(kind: type) -> Callable[[list[Any]], bool]:
    return lambda values: {kind}.issuperset(map(type, values))


_LARGEST_COUNT = 2**53  # a double holds it exactly: figures are computed with it
_COUNT = "an integer of at least 0, and at most 2**53"
_REQUIRED = object()
_Kinds = Mapping[type, Callable[[Any], bool] | None]
_TEXT: _Kinds = {str: None}
_TEXT_OR_NULL: _Kinds = {str: None, NoneType: None}


class _Field(NamedTuple):
    """The types of a field's values, with what is asked of them besides; what is valid, in words; and the default."""

    kinds: _Kinds
    valid: str
    default: Any = _REQUIRED

    def accepts(self, value: object) -> bool:
        if type(value) not in self.kinds:
            return False
        check = self.kinds[type(value)]
        return check is None or check(value)


_FIELDS: Mapping[str, _Field] = {
    "id": _Field(_TEXT, "a string"),
    "agent": _Field({str: bool}, "a string that is not empty"),
    "index": _Field({int: _is_count}, _COUNT),
    "text": _Field(_TEXT, "a string"),
    "question": _Field(_TEXT, "a string", ""),
    "references": _Field({list: _are(str)}, "a list of strings", []),
    "round": _Field({int: _is_count}, _COUNT, 0),
    "answer": _Field(_TEXT_OR_NULL, "a string or null", None),
    "logprob": _Field(
        {int: _is_log_probability, float: _is_log_probability, NoneType: None},
        "a finite number of at most 0, or null",
        None,
    ),
    "n_tokens": _Field({int: _is_count, NoneType: None}, f"{_COUNT}, or null", None),
    "correct": _Field({bool: None, NoneType: None}, "true, false or null", None),
    "error": _Field(_TEXT_OR_NULL, "a string or null", None),
    "calls": _Field(
        {list: _are(dict), NoneType: None},
        'a list of objects with "name" and "args", or null',
        None,
    ),
    "tools": _Field(
        {list: _are(dict), NoneType: None}, "a list of JSON schemas with a name, or null", None
    ),
    "end": _Field(
        {str: get_args(End).__contains__},
        'one of "whole", "cut", "filtered" and "unknown"',
        "whole",
    ),
    "confidence": _Field(
        {int: None, float: isfinite, NoneType: None}, "a number in [0, 1], or null", None
    ),
}


_REQUIRED_FIELDS = dict.fromkeys(
    [name for name, field in _FIELDS.items() if field.default is _REQUIRED]
).keys()
_DEFAULTS = {
    name: field.default for name, field in _FIELDS.items() if field.default is not _REQUIRED
}


def _show(value: Any) -> str:
    try:
        return repr(str(value)[:50])
    except ValueError:  # Python does not write thousands of digits
        return "a huge number"


def parse_object(
    raw: str | bytes, *, form: str = '{"id": ..., "agent": ..., ...}', is_strict: bool = False
) -> JsonObject:
    """Returns the JSON object of a line, else a ValueError that says what it is instead."""
    try:
        record = parse_json(raw, is_strict=is_strict)
    except ValueError as error:
        hint = "Every line is one JSON object; it may have been cut off"
        raise ValueError(f"this is not JSON: {error}. {hint}") from error
    if not isinstance(record, dict):
        raise ValueError(f"this is not a JSON object. Write every line as {form}")
    return record


def from_loose(record: Fields) -> JsonObject:
    """Returns the record of a table with values as a line has them: a cell may be a text where we have another type.

    Empty cells are absent, but for an empty text. What cannot be read stays, so that `find_faults` names it.

    Example:
        >>> from_loose({"id": 7, "n_tokens": "3.0", "correct": "True", "text": None, "error": None})
        {'id': '7', 'n_tokens': 3, 'correct': True, 'text': ''}
    """
    values: JsonObject = {}
    for field, value in record.items():
        if value is not None and field in _FIELDS:
            values[field] = _from_cell(value, _FIELDS[field].kinds)
        elif value is not None or field == "text":
            values[field] = value or ""
    return values


def _from_cell(cell: Any, kinds: _Kinds) -> Any:
    if str in kinds:
        return str(cell) if isinstance(cell, int | float) else cell
    value = cell
    if isinstance(cell, str):
        with suppress(ValueError):
            value = parse_json(cell.lower() if bool in kinds else cell)
    if bool in kinds and value in (0, 1):
        return bool(value)
    if int in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def valid_values(field: str) -> str:
    """Returns which values of a field are valid, in words."""
    return _FIELDS[field].valid


def missing_fields(record: Fields, *, is_numbered: bool = True) -> list[str]:
    """Returns the required fields that a line lacks; the index is required where responses are numbered."""
    missing = []
    for field in _REQUIRED_FIELDS:
        if field not in record and (is_numbered or field != "index"):
            missing.append(field)
    return missing


def find_faults(record: Fields, *, is_numbered: bool = True) -> list[str]:
    """Returns all that is wrong with a line: required fields that it lacks, and values that are not valid."""
    faults = []
    if not record.keys() >= _REQUIRED_FIELDS:
        for field in missing_fields(record, is_numbered=is_numbered):
            faults.append(f'"{field}" is missing: {valid_values(field)}')
    if not _are_valid(record):
        for field, value in record.items():
            if field in _FIELDS and not _FIELDS[field].accepts(value):
                faults.append(f'"{field}" must be {valid_values(field)}; got {_show(value)}')
    if not faults and record.get("calls") is not None:
        try:
            _answer_of(record)
        except (TypeError, ValueError) as error:
            faults.append(
                f'"calls" and "tools" must be readable as an action; {error}. '
                'A proposal that nothing could run is a failure: set "calls" to null, and "error" to what was wrong'
            )
    return faults


def _are_valid(record: Fields) -> bool:
    """Returns whether all values of a line are valid: mostly they are, and then nobody needs to know which is not."""
    checks = _checks_of(tuple(record), tuple(map(type, record.values())))
    return checks is not None and all(check(record[field]) for field, check in checks)


@lru_cache(maxsize=1024)
def _checks_of(
    fields: Sequence[str], kinds: Sequence[type]
) -> Sequence[tuple[str, Callable[[Any], bool]]] | None:
    """Returns what is to be asked of the values of such a line; None if one is of a type that is not valid."""
    checks = []
    for field, kind in zip(fields, kinds, strict=True):
        if field not in _FIELDS:
            continue
        if kind not in _FIELDS[field].kinds:
            return None
        check = _FIELDS[field].kinds[kind]
        if check is not None:
            checks.append((field, check))
    return checks


def to_sample(record: JsonObject) -> Sample:
    """Returns the object of a line that passes `check_line` as a sample: the fields that it lacks are added.

    A confidence outside [0, 1] is not known: sources write -1 for that. Its former name was "verbal_conf".
    """
    stated = record.get("confidence", record.get("verbal_conf"))
    is_known = stated is not None and is_number(stated) and 0 <= stated <= 1
    record = _DEFAULTS | record
    record["confidence"] = stated if is_known else None
    record["error"] = record["error"] or None
    if record["calls"] is not None:
        record["answer"] = _answer_of(record)
    return cast("Sample", record)


def _answer_of(record: Fields) -> str:
    """Returns the answer of a line with calls, else their canonical form; without either it raises."""
    answer: str | None = record.get("answer")
    if read_action(answer or "") is not None:
        return cast("str", answer)
    action = canonical_action(record["calls"], tools=record.get("tools"))
    return action if answer is None else answer
