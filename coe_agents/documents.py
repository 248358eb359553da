"""Owns reading JSON and TOML that others wrote: whatever is in it, the only error is a `ValueError` that says where."""

import json
import re
from collections.abc import Mapping
from typing import Any

_DEEPEST = 100
"""Levels of nesting; no file of ours has ten, and code that walks a value must not exhaust the stack."""
_LONG_INTEGER = re.compile(r"(?<![\w.])[+-]?\d[\d_]{18,}(?![\w.])")
_LARGEST = 2**63
_decode = json.JSONDecoder().raw_decode


def parse_json(text: str | bytes, *, is_strict: bool = False, **options: Any) -> Any:
    """Returns what `json.loads` returns.

    Args:
        text: The JSON.
        is_strict: Whether to refuse what programs read differently: a name that appears twice in an object, NaN and
            the infinities.
        **options: As in `json.loads`.

    Raises:
        ValueError: If it is not JSON, or is nested more than 100 levels deep.

    Example:
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
            ...
        ValueError: it is nested more than 100 levels deep. Flatten it
    """
    if is_strict:
        options |= {"object_pairs_hook": with_unique_names, "parse_constant": _refuse_constant}
    value = None if options else _scan_object(text)
    if value is None:
        try:
            value = json.loads(text, **options)
        except RecursionError as error:
            raise _too_deep() from error
    opened = (text.count(b"["), text.count(b"{")) if isinstance(text, bytes) else (text.count("["), text.count("{"))
    if sum(opened) > _DEEPEST:
        _check_depth(value)
    return value


def _scan_object(text: str | bytes) -> Any:
    """Returns what `json.loads` returns for an object in UTF-8; None for all else, valid or not.

    A line of samples is one. `json.loads` first finds out its encoding and the white space around it, which takes
    longer than reading it.
    """
    if not isinstance(text, bytes) or text[:1] != b"{" or text[1:2] in (b"\0", b""):
        return None
    try:
        plain = text.decode("utf-8", "surrogatepass")
        value, end = _decode(plain)
    except (ValueError, RecursionError):
        return None
    return None if plain[end:].strip(" \t\n\r") else value


def parse_toml(text: str) -> dict[str, Any]:
    r"""Returns what `tomllib.loads` returns.

    Raises:
        ValueError: If it is not TOML, is nested more than 100 levels deep, or holds an integer of more than 64 bits,
            which TOML does not have.

    Example:
        >>> parse_toml("a = 1\nb = 99999999999999999999")
        Traceback (most recent call last):
            ...
        ValueError: the integer 9999999999... has 20 digits, more than TOML's 64 bits (at line 2). Write a smaller one
    """
    import tomllib  # here, since a graph without files does not need it

    for number, line in enumerate(text.splitlines(), start=1):
        code = line.partition("#")[0]
        if code.count("[") + code.count("{") > _DEEPEST:
            raise _too_deep(f" (at line {number})")
    try:
        value = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep() from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # thousands of digits
        raise _too_long(text) from error
    _check_depth(value)
    if _holds_long_integer(value):
        raise _too_long(text)
    return value


def with_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a name that appears twice in an object, since programs differ in which value they read."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in value if names.count(name) > 1)
        raise ValueError(f'each field must appear once; got "{twice:.40}" twice. Omit one')
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"a number must be finite; got {name}. Write a number or null")


def _too_deep(where: str = "") -> ValueError:
    return ValueError(f"it is nested more than {_DEEPEST} levels deep{where}. Flatten it")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for held in level for item in _items(held)]:
        depth += 1
        if depth > _DEEPEST:
            raise _too_deep()


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _holds_long_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not -_LARGEST <= value < _LARGEST
    return any(map(_holds_long_integer, _items(value)))


def _too_long(text: str) -> ValueError:
    """Returns the error about an integer of more than 64 bits; its line is that of the longest run of digits."""
    found = [
        (len(digits), -number, digits)
        for number, line in enumerate(text.splitlines(), start=1)
        for digits in (run[0].lstrip("+-").replace("_", "") for run in _LONG_INTEGER.finditer(line.partition("#")[0]))
    ]
    if not found:
        return ValueError("an integer has more than TOML's 64 bits. Write a smaller one")
    count, number, digits = max(found)
    return ValueError(
        f"the integer {digits[:10]}... has {count} digits, more than TOML's 64 bits (at line {-number}). "
        "Write a smaller one"
    )
