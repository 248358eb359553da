"""Owns the options of the clusterer of tool calls, as a configuration file states them."""

from collections.abc import Mapping
from typing import Any

from coe_agents.actions import AnyOrder, Exact, Ignore, Rule, Text, Within
from coe_agents.checks import is_number, one_of

_NAMED: Mapping[str, Rule] = {"exact": Exact(), "ignore": Ignore(), "any_order": AnyOrder(), "text": Text()}
_FORMS = '"exact", "ignore", "any_order", "text", { within = 0.01 } or { within_relative = 0.05 }'
_WITHIN = {"within": "absolute", "within_relative": "relative"}


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments of `ActionMatch`.

    Raises:
        ValueError: If an option is not known, or a rule is not one.

    Example:
        >>> read_options({"compare": {"transfer.amount": {"within": 0.01}, "note": "ignore"}})
        {'compare': {'transfer.amount': Within(absolute=0.01, relative=0.0), 'note': Ignore()}}
    """
    for name in options.keys() - {"compare", "text"}:
        raise ValueError(f'"{name}" is not an option of "actions". Its options are compare and text')
    text = {"text": one_of(options["text"], '"text"', ("exact", "loose"))} if "text" in options else {}
    compare = options.get("compare", {})
    if not isinstance(compare, Mapping):
        raise ValueError(f'"compare" must be a table of rules by argument; got {type(compare).__name__}')
    rules = {name: _read_rule(name, stated) for name, stated in compare.items()}
    return {"compare": rules, **text} if rules else text


def _read_rule(name: str, stated: Any) -> Rule:
    if isinstance(stated, str) and stated in _NAMED:
        return _NAMED[stated]
    if (
        isinstance(stated, Mapping)
        and stated
        and stated.keys() <= _WITHIN.keys()
        and all(map(is_number, stated.values()))
    ):
        return Within(**{_WITHIN[key]: value for key, value in stated.items()})
    if isinstance(stated, Mapping) and "." not in name:  # what TOML reads an unquoted "tool.argument" as
        raise ValueError(f'the rule of "{name}" must be {_FORMS}. Put a name with a point in quotes: "tool.argument"')
    raise ValueError(f'the rule of "{name}" must be {_FORMS}; got {stated!r:.80}. Write one of them')
