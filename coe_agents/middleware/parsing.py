"""Owns the parsers of LangChain's tools: the arguments as a tool's function would receive them, as JSON values."""

import math
import sys
from collections.abc import Collection, Iterable
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, cast

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError, create_model
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import create_model as create_model_v1

from coe_agents.actions.canonical import MAX_DEPTH, Parser, copy_json, to_line, tool_key
from coe_agents.actions.rules import DECIMAL

_MOST = 300
"""The most characters that are quoted of what a validator says."""
_KNOWN = sys.stdlib_module_names | {"pydantic", "pydantic_core"}
"""Packages whose own ways of copying a value lose nothing of it."""


def parsers_of(tools: Iterable[Any]) -> dict[str, Parser]:
    """Returns a parser of each tool whose arguments a pydantic model parses, by the tool's name with "_" for ".".

    The function of a tool that has a JSON schema alone receives the JSON as it is.
    """
    return {
        tool_key(tool.name): _ArgumentParser(tool)
        for tool in tools
        if isinstance(tool, BaseTool) and isinstance(tool.args_schema, type)
    }


class _NoFormError(Exception):
    """A value has no faithful form."""


class _ArgumentParser:
    """Parses arguments as LangChain does before it calls a tool's function, but without those that it injects."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool
        self._own = cast("Any", tool.args_schema)
        self._is_v1 = issubclass(self._own, BaseModelV1)
        self._kinds: dict[str, type] = {}

    def __call__(self, args: dict[str, Any]) -> dict[str, Any]:
        given = copy_json(args)  # a validator may change what it is given
        try:
            parsed: Any = self._model.parse_obj(given) if self._is_v1 else self._model.model_validate(given)
            found = _fields(parsed, unpassed=("args", "kwargs"))
            return {name: self._plain(own, 1) for name, own in found.items() if name not in self._injected}
        except _NoFormError:
            return {name: {"$json": value} for name, value in args.items()}
        except Exception as error:  # a tool's validator may raise anything
            raise ValueError(f'"{self._tool.name}" refuses the arguments: {_why(error)}') from error

    @cached_property
    def _injected(self) -> frozenset[str]:
        """The arguments that LangChain passes, which no model can propose."""
        shown: Any = self._tool.tool_call_schema
        own, left = (kind.__fields__ if self._is_v1 else kind.model_fields for kind in (self._own, shown))
        return frozenset(own) - frozenset(left)

    @cached_property
    def _model(self) -> Any:
        """The model that LangChain parses by; injected fields are optional. `tool_call_schema` has no validators."""
        if not self._injected:
            return self._own
        create: Any = create_model_v1 if self._is_v1 else create_model
        return create(self._own.__name__, __base__=self._own, **dict.fromkeys(self._injected, (Any, None)))

    def _plain(self, value: Any, depth: int) -> Any:
        """Returns a value as JSON: equal only for equal values of one type.

        What JSON has no value for is an object with one field whose name begins with one "$"; a name of the value's own
        has one "$" more.
        """
        if depth > MAX_DEPTH:
            raise _NoFormError
        kind, inner = type(value), depth + 1
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"$float": str(value)} if math.isinf(value) else value  # the line has -0.0 as 0
        if kind is list:
            return [self._plain(one, inner) for one in value]
        if kind is dict and all(type(name) is str for name in value):
            return {
                f"${name}" if name.startswith("$") else name: self._plain(own, inner) for name, own in value.items()
            }
        if kind in (tuple, set, frozenset, dict):
            items = [self._plain(one, inner) for one in (value.items() if kind is dict else value)]
            return {f"${kind.__name__}": items if kind is tuple else sorted(items, key=to_line)}
        return self._tagged(value, kind, inner)

    def _tagged(self, value: Any, kind: type, inner: int) -> dict[str, Any]:
        if kind is bytes:
            return {"$bytes": value.hex()}
        if kind is Decimal:
            return {DECIMAL: _digits(value)}
        if isinstance(value, type):
            return {"$type": self._name(value)}
        tag = f"${self._name(kind)}"
        if isinstance(value, Enum):
            return {tag: self._plain([value._name_, value._value_], inner)}  # "_missing_" may reuse a name
        if isinstance(value, BaseModel | BaseModelV1):
            _check_factories(value.__private_attributes__.values())
            private = {name: getattr(value, name, None) for name in value.__private_attributes__}
            return {tag: [self._plain(_fields(value), inner), self._plain(private, inner)]}
        if is_dataclass(value):
            _check_factories(one for one in fields(value) if one.default_factory is not MISSING)
        return {tag: [self._plain(part, inner) for part in _reduce(value)]}

    def _name(self, kind: type) -> str:
        """Returns the name of a class; of two classes with one name the second is numbered."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        while self._kinds.setdefault(name, kind) is not kind:
            name += "'"
        return name


def _fields(parsed: Any, *, unpassed: Collection[str] = ()) -> dict[str, Any]:
    """Returns the values of a parsed model's fields; one that a factory fills in counts as not given.

    `unpassed`: the names whose defaults LangChain does not pass to a tool's function.
    """
    names = [*parsed.__dict__]  # a validator may keep there what is no field
    if isinstance(parsed, BaseModelV1):
        given, stated = parsed.__fields_set__, parsed.__fields__
    else:
        given, stated = parsed.model_fields_set, type(parsed).model_fields
        names += parsed.__pydantic_extra__ or ()
    return {
        name: getattr(parsed, name)
        for name in names
        if name in given or name not in stated or (stated[name].default_factory is None and name not in unpassed)
    }


def _check_factories(parts: Iterable[Any]) -> None:
    """Refuses a value with a part that a factory may have made: each parse may make another one, such as an id."""
    if any(one.default_factory is not None for one in parts):
        raise _NoFormError


def _reduce(value: Any) -> list[Any]:
    """Returns what `pickle` would make a copy of a value from, where that is all of it."""
    ways = (getattr(type(value), name, None) for name in ("__reduce_ex__", "__reduce__", "__getstate__"))
    if not all((getattr(way, "__module__", None) or "builtins").partition(".")[0] in _KNOWN for way in ways):
        raise _NoFormError
    try:
        create, args, state, items, pairs = (*value.__reduce_ex__(4), None, None, None)[:5]
        return [create.__name__, args, state, list(items or ()), [list(pair) for pair in pairs or ()]]
    except Exception as error:
        raise _NoFormError from error


def _digits(value: Decimal) -> str:
    """Returns a number by value: as digits without zeros at their end, and an exponent."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"numbers must be finite; got {value}. Refuse the proposal")
    whole = "".join(map(str, digits)).lstrip("0")
    kept = whole.rstrip("0")
    return f"{'-' * sign}{kept}E{exponent + len(whole) - len(kept)}" if kept else "0"


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"[:_MOST]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:_MOST]
