"""Owns what a tool's function receives of a call: the parsed arguments as JSON values, without the injected ones."""

import hashlib
import json
import math
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from functools import cached_property
from itertools import count, takewhile
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt.tool_node import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel, ValidationError, create_model
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import create_model as create_model_v1

from coe_agents.actions.canonical import (
    MAX_DEPTH,
    Parser,
    canonical_action,
    copy_json,
    to_line,
    tool_key,
)
from coe_agents.actions.rules import DECIMAL

INJECTED = "coe_injected"
"""The attribute of a guarded tool, whose function is hidden, that returns the names of its injected arguments."""

_MOST = 300
"""The most characters that are quoted of what a validator says."""
_KNOWN = sys.stdlib_module_names | {"pydantic", "pydantic_core"}
"""Packages whose own ways of copying a value lose nothing of it."""
_COPYING = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")
_UNPASSED = frozenset({"args", "kwargs"})
"""The fields whose defaults LangChain does not pass to a tool's function."""
_INTO_UNIONS = (InjectedState, InjectedStore, ToolRuntime)
_PARSING = ("invoke", "ainvoke", "run", "arun", "_parse_input", "_to_args_and_kwargs")
"""The methods of a tool that stand between a call and its function."""

_PROCESS = uuid.uuid4().hex
_NAMES = WeakKeyDictionary[type, str]()
_NUMBERS = dict[str, "count[int]"]()


def parsers_of(tools: Iterable[Any]) -> dict[str, Parser]:
    """Returns a parser of each tool whose arguments a pydantic model parses, by the tool's name with "_" for ".".

    The function of a tool that has a JSON schema alone receives the JSON as it is.
    """
    parsers: dict[str, Parser] = {}
    for tool in tools:
        if isinstance(tool, BaseTool) and isinstance(tool.args_schema, type):
            parsers[tool_key(tool.name)] = _ArgumentParser(tool)
    return parsers


def tool_forms(
    tool: Any, call: Mapping[str, Any], parsers: Mapping[str, Parser] | None = None
) -> Iterator[str]:
    """Yields the forms of a call by which it is known what a tool's function receives of it.

    Two tools that have a form in common give their functions the same. The first form is the class that parses, in this
    process. The second one holds in other processes and for other classes, too: it is the values, or the name of the
    class where these have no faithful form.

    Args:
        tool: A LangChain tool, or the JSON schema of one.
        call: The call, without arguments that the agent passes.
        parsers: Those that may have read the call before, as `parsers_of` returns them.
    """
    key = tool_key(call["name"])
    parser = (parsers or parsers_of([tool])).get(key)
    try:
        if not isinstance(parser, _ArgumentParser):
            line = canonical_action([call], tools=[tool])
        else:
            yield f"{_PROCESS} {parser.class_name}"
            line = parser.class_name
            if parser.form_of(copy_json(call["args"])) is not None:
                line = canonical_action([call], parsers={key: parser})
    except (TypeError, ValueError):  # the tool refuses the arguments
        return
    yield hashlib.sha256(line.encode()).hexdigest()


def received_arguments(tool: BaseTool | None, call: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call as a tool's function receives them, in objects that nobody else has.

    Where no tool is known, or a JSON schema alone describes it, they are the JSON as it is.

    Raises:
        ValueError: The tool refuses the arguments, or it cannot be known what its function receives.
    """
    if tool is None or not isinstance(tool.args_schema, type):
        copied: dict[str, Any] = copy_json(call["args"])
        return copied
    return _ArgumentParser(tool).values_of(call["args"])


def injected_arguments(tool: BaseTool) -> set[str]:
    """Returns the arguments that the agent passes to a tool's function, whatever the model gives for them.

    They are found as LangGraph's `ToolNode` finds them: by the tool's schema, and by the function's annotations of what
    the schema does not name.
    """
    of_guarded: Callable[[], set[str]] | None = getattr(tool, INJECTED, None)
    if of_guarded is not None:
        return of_guarded()
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    hints = _hints(function) if function else {}
    hints |= get_all_basemodel_annotations(tool.get_input_schema())
    return {name for name, hint in hints.items() if name == "runtime" or _is_injected(hint)}


def _is_injected(hint: Any, markers: tuple[type, ...] = (InjectedToolArg, ToolRuntime)) -> bool:
    """Returns whether the agent replaces an argument with this annotation.

    LangGraph looks for its own markers in a union, too; LangChain hides from the model only what is marked itself.
    """
    kind = get_origin(hint) or hint
    if kind is Annotated:
        return any(_is_injected(part, markers) for part in get_args(hint))
    if kind is Union:
        return any(_is_injected(part, _INTO_UNIONS) for part in get_args(hint))
    return isinstance(kind, markers) or (isinstance(kind, type) and issubclass(kind, markers))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return dict(getattr(function, "__annotations__", {}))


def _class_name(kind: type) -> str:
    """Returns the name of a class, with its number among the classes of this name."""
    if kind not in _NAMES:
        name = f"{kind.__module__}.{kind.__qualname__}"
        _NAMES.setdefault(kind, f"{name} {next(_NUMBERS.setdefault(name, count()))}")
    return _NAMES[kind]


class _NoFormError(Exception):
    """A value has no faithful form."""


class _ArgumentParser:
    """Parses arguments as LangChain does before it calls a tool's function, but without those that are injected.

    Equal arguments have one form, whatever the clock says: each are read once.
    """

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool
        self._schema = cast("Any", tool.args_schema)
        self._is_v1 = issubclass(self._schema, BaseModelV1)
        self._kinds: dict[str, type] = {}
        self._forms: dict[str, dict[str, Any] | None] = {}
        self._fresh: dict[tuple[type, str, str], str] = {}

    def __call__(self, args: dict[str, Any]) -> dict[str, Any]:
        form = self.form_of(args)
        if form is None:
            return {name: {"$json": value} for name, value in args.items()}
        return form

    @property
    def class_name(self) -> str:
        """The classes that parse: the tool's, and its schema's."""
        return f"{_class_name(type(self._tool))} {_class_name(self._schema)}"

    def form_of(self, args: dict[str, Any]) -> dict[str, Any] | None:
        """Returns what the function receives, as JSON values; None if that has no faithful form.

        Arguments are parsed twice: what each parse makes anew, such as an id or the time, has no form.
        """
        written = json.dumps(args)  # not sorted: a validator may see the order
        if written not in self._forms:
            form = self._parse(args)
            is_stable = to_line(form) == to_line(self._parse(args))
            self._forms[written] = form if is_stable else None
        return self._forms[written]

    def values_of(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the values that the function receives, without those that are injected.

        Raises:
            ValueError: The tool refuses the arguments, or they have no faithful form.
        """
        if self.form_of(args) is None:
            raise ValueError("it cannot be known what the function receives")
        parsed = self._validate(copy_json(args))
        names = {*parsed.__dict__, *(getattr(parsed, "__pydantic_extra__", None) or ())}
        return {name: getattr(parsed, name) for name in names - self._injected}

    def _validate(self, args: dict[str, Any]) -> Any:
        if self._is_v1:
            return self._model.parse_obj(args)
        return self._model.model_validate(args)

    def _parse(self, args: dict[str, Any]) -> dict[str, Any] | None:
        if not self._parses_plainly:
            return None
        copied = copy_json(args)  # a validator may change what it is given
        try:
            parsed = self._validate(copied)
            passed = {*copied, *_set_fields(parsed)}
            forms = self._fields(parsed, 1, passed=passed)
            for name in self._injected | (_UNPASSED - passed):
                forms.pop(name, None)
            return forms
        except _NoFormError:
            return None
        except Exception as error:  # a tool's validator may raise anything
            if self._injected and not isinstance(error, ValueError):
                return None  # it may have read what the agent passes, which is not there yet
            raise ValueError(f'"{self._tool.name}" refuses the arguments: {_why(error)}') from error

    @cached_property
    def _parses_plainly(self) -> bool:
        """Whether only LangChain's own methods stand between a call and the tool's function."""
        for name in _PARSING:
            method = getattr(type(self._tool), name)
            if not str(getattr(method, "__module__", "")).startswith("langchain_core."):
                return False
        return True

    @cached_property
    def _injected(self) -> set[str]:
        return injected_arguments(self._tool)

    @cached_property
    def _model(self) -> Any:
        """The model that LangChain parses by; injected fields are optional. `tool_call_schema` has no validators."""
        schema = self._schema
        stated = schema.__fields__ if self._is_v1 else schema.model_fields
        injected = self._injected.intersection(stated)
        if not injected:
            return schema
        create: Any = create_model_v1 if self._is_v1 else create_model
        optional = dict.fromkeys(injected, (Any, None))
        return create(schema.__name__, __base__=schema, **optional)

    def _fields(self, parsed: Any, depth: int, *, passed: Collection[str]) -> dict[str, Any]:
        """Returns the values of a model's fields, as JSON.

        One that is not passed is left out where its value is what its factory makes afresh: a validator may have filled
        it since.
        """
        names = [*parsed.__dict__]  # a validator may keep there what is no field
        stated: Mapping[str, Any]
        if isinstance(parsed, BaseModelV1):
            stated = parsed.__fields__
        else:
            stated = type(parsed).model_fields
            names += parsed.__pydantic_extra__ or ()
        values = {name: getattr(parsed, name) for name in names}
        forms = {name: self._plain(value, depth) for name, value in values.items()}
        for name, field in stated.items():
            if name in passed or field.default_factory is None:
                continue
            fresh = self._make_fresh(type(parsed), name, stated, values, depth)
            if name in forms and to_line(forms[name]) == fresh:
                del forms[name]
        return forms

    def _make_fresh(
        self,
        kind: type,
        name: str,
        stated: Mapping[str, Any],
        values: Mapping[str, Any],
        depth: int,
    ) -> str:
        """Returns, as a line, what the factory of a field makes where no validator sees it.

        It is made once: a validator may change an object that the factory gives to all.
        """
        field = stated[name]
        validated = list[dict[str, Any]]()
        if getattr(field, "default_factory_takes_validated_data", False):
            before = takewhile(name.__ne__, stated)
            validated.append({other: values[other] for other in before})
        key = kind, name, to_line(self._plain(validated, depth))
        if key not in self._fresh:
            try:
                fresh = field.default_factory(*validated)
            except Exception as error:
                # it may raise anything, once a validator has changed what it takes
                raise _NoFormError from error
            self._fresh[key] = to_line(self._plain(fresh, depth))
        return self._fresh[key]

    def _plain(self, value: Any, depth: int) -> Any:
        """Returns a value as JSON: equal only for equal values of one type.

        What JSON has no value for is an object with one field whose name begins with one "$"; a name of the value's own
        has one "$" more.
        """
        if depth > MAX_DEPTH:
            raise _NoFormError
        kind = type(value)
        inner = depth + 1
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"$float": str(value)} if math.isinf(value) else value  # the line has -0.0 as 0
        if kind is list:
            return [self._plain(item, inner) for item in value]
        if kind is tuple:
            return {"$tuple": [self._plain(item, inner) for item in value]}
        if kind is dict and all(type(name) is str for name in value):
            return _escaped({name: self._plain(item, inner) for name, item in value.items()})
        if kind in (set, frozenset, dict):
            items = value.items() if kind is dict else value
            forms = [self._plain(item, inner) for item in items]
            return {f"${kind.__name__}": sorted(forms, key=to_line)}
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
            # "_missing_" may reuse a name
            return {tag: self._plain([value._name_, value._value_], inner)}
        if isinstance(value, BaseModel | BaseModelV1):
            fields = self._fields(value, inner + 1, passed=_set_fields(value))
            private = {name: getattr(value, name, None) for name in value.__private_attributes__}
            return {tag: [_escaped(fields), self._plain(private, inner)]}
        return {tag: [self._plain(part, inner) for part in _reduce(value)]}

    def _name(self, kind: type) -> str:
        """Returns the name of a class; of two classes with one name the second is numbered."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        while self._kinds.setdefault(name, kind) is not kind:
            name += "'"
        return name


def _escaped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object that imitates no value that JSON has none for: see `_plain`."""
    escaped = {}
    for name, value in values.items():
        escaped[f"${name}" if name.startswith("$") else name] = value
    return escaped


def _set_fields(parsed: Any) -> Collection[str]:
    """Returns the names of the fields that a model was given."""
    names: Collection[str]
    if isinstance(parsed, BaseModelV1):
        names = parsed.__fields_set__
    else:
        names = parsed.model_fields_set
    return names


def _reduce(value: Any) -> list[Any]:
    """Returns what `pickle` would make a copy of a value from, where that is all of it."""
    for name in _COPYING:
        method = getattr(type(value), name, None)
        module = getattr(method, "__module__", None) or "builtins"
        if module.partition(".")[0] not in _KNOWN:
            raise _NoFormError
    try:
        parts = (*value.__reduce_ex__(4), None, None, None)
        create, args, state, items, pairs = parts[:5]
        listed = [list(pair) for pair in pairs or ()]
        return [create.__name__, args, state, list(items or ()), listed]
    except Exception as error:
        raise _NoFormError from error


def _digits(value: Decimal) -> str:
    """Returns a number by value: as digits without zeros at their end, and an exponent."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"numbers must be finite; got {value}. Refuse the proposal")
    whole = "".join(map(str, digits)).lstrip("0")
    kept = whole.rstrip("0")
    if not kept:
        return "0"
    return f"{'-' * sign}{kept}E{exponent + len(whole) - len(kept)}"


def _why(error: Exception) -> str:
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, ValidationError):
        fault, *_ = error.errors(include_url=False, include_context=False, include_input=False)
        why = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    return why[:_MOST]
