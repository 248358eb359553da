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
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt.tool_node import ToolRuntime
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
_UNPASSED = frozenset({"args", "kwargs"})
"""The fields whose defaults LangChain does not pass to a tool's function."""
_PARSING = ("invoke", "ainvoke", "run", "arun", "_parse_input", "_to_args_and_kwargs")
"""The methods of a tool that stand between a call and its function."""

_PROCESS = uuid.uuid4().hex
_NAMES = WeakKeyDictionary[type, str]()
_NUMBERS = dict[str, "count[int]"]()


def parsers_of(tools: Iterable[Any]) -> dict[str, Parser]:
    """Returns a parser of each tool whose arguments a pydantic model parses, by the tool's name with "_" for ".".

    The function of a tool that has a JSON schema alone receives the JSON as it is.
    """
    return {
        tool_key(tool.name): _ArgumentParser(tool)
        for tool in tools
        if isinstance(tool, BaseTool) and isinstance(tool.args_schema, type)
    }


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
            is_faithful = parser.form_of(copy_json(call["args"])) is not None
            line = (
                canonical_action([call], parsers={key: parser})
                if is_faithful
                else parser.class_name
            )
    except (TypeError, ValueError):  # the tool refuses the arguments
        return
    yield hashlib.sha256(line.encode()).hexdigest()


def injected_arguments(tool: BaseTool) -> set[str]:
    """Returns the arguments that the agent passes to a tool's function, whatever the model gives for them.

    They are found as LangGraph's `ToolNode` finds them: by the tool's schema, and by the function's annotations of what
    the schema does not name.
    """
    if (known := getattr(tool, INJECTED, None)) is not None:
        names: set[str] = known()
        return names
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    hints = _hints(function) if function else {}
    hints |= get_all_basemodel_annotations(tool.get_input_schema())
    return {name for name, hint in hints.items() if name == "runtime" or _is_injected(hint)}


def _is_injected(hint: Any) -> bool:
    """Returns whether the agent replaces an argument with this annotation."""
    kind = get_origin(hint) or hint
    if kind in (Annotated, Union, UnionType):
        return any(map(_is_injected, get_args(hint)))
    kinds = InjectedToolArg | ToolRuntime
    return isinstance(kind, InjectedToolArg) or (isinstance(kind, type) and issubclass(kind, kinds))


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
        self._own = cast("Any", tool.args_schema)
        self._is_v1 = issubclass(self._own, BaseModelV1)
        self._kinds: dict[str, type] = {}
        self._forms: dict[str, dict[str, Any] | None] = {}
        self._fresh: dict[tuple[type, str, str], str] = {}

    def __call__(self, args: dict[str, Any]) -> dict[str, Any]:
        form = self.form_of(args)
        return {name: {"$json": value} for name, value in args.items()} if form is None else form

    @property
    def class_name(self) -> str:
        """The classes that parse: the tool's, and its schema's."""
        return f"{_class_name(type(self._tool))} {_class_name(self._own)}"

    def form_of(self, args: dict[str, Any]) -> dict[str, Any] | None:
        """Returns what the function receives, as JSON values; None if that has no faithful form.

        Arguments are parsed twice: what each parse makes anew, such as an id or the time, has no form.
        """
        written = json.dumps(args)  # not sorted: a validator may see the order
        if written not in self._forms:
            first = self._parse(args)
            second = self._parse(args)
            self._forms[written] = first if to_line(first) == to_line(second) else None
        return self._forms[written]

    def _parse(self, args: dict[str, Any]) -> dict[str, Any] | None:
        if not self._parses_plainly:
            return None
        given = copy_json(args)  # a validator may change what it is given
        try:
            parsed: Any = (
                self._model.parse_obj(given) if self._is_v1 else self._model.model_validate(given)
            )
            names = {*given, *_set_fields(parsed)}
            left_out = self._injected | (_UNPASSED - names)
            forms = self._fields(parsed, 1, given=names)
            return {name: form for name, form in forms.items() if name not in left_out}
        except _NoFormError:
            return None
        except Exception as error:  # a tool's validator may raise anything
            raise ValueError(f'"{self._tool.name}" refuses the arguments: {_why(error)}') from error

    @cached_property
    def _parses_plainly(self) -> bool:
        """Whether only LangChain's own methods stand between a call and the tool's function."""
        methods = (getattr(type(self._tool), name) for name in _PARSING)
        return all(
            str(getattr(method, "__module__", "")).startswith("langchain_core.")
            for method in methods
        )

    @cached_property
    def _injected(self) -> set[str]:
        return injected_arguments(self._tool)

    @cached_property
    def _model(self) -> Any:
        """The model that LangChain parses by; injected fields are optional. `tool_call_schema` has no validators."""
        stated = self._own.__fields__ if self._is_v1 else self._own.model_fields
        injected = self._injected.intersection(stated)
        if not injected:
            return self._own
        create: Any = create_model_v1 if self._is_v1 else create_model
        return create(
            self._own.__name__, __base__=self._own, **dict.fromkeys(injected, (Any, None))
        )

    def _fields(self, parsed: Any, depth: int, *, given: Collection[str]) -> dict[str, Any]:
        """Returns the values of a model's fields, as JSON.

        One that is not given is left out where its value is what its factory makes afresh: a validator may have filled
        it since.
        """
        names = [*parsed.__dict__]  # a validator may keep there what is no field
        if isinstance(parsed, BaseModelV1):
            stated: Mapping[str, Any] = parsed.__fields__
        else:
            stated = type(parsed).model_fields
            names += parsed.__pydantic_extra__ or ()
        values = {name: getattr(parsed, name) for name in names}
        forms = {name: self._plain(value, depth) for name, value in values.items()}
        made = [
            name
            for name, field in stated.items()
            if name not in given and field.default_factory is not None
        ]
        fresh = {name: self._make_fresh(type(parsed), name, stated, values, depth) for name in made}
        return {name: form for name, form in forms.items() if to_line(form) != fresh.get(name)}

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
            validated.append({other: values[other] for other in takewhile(name.__ne__, stated)})
        key = kind, name, to_line(self._plain(validated, depth))
        if key not in self._fresh:
            try:
                fresh = field.default_factory(*validated)
            except (
                Exception
            ) as error:  # it may raise anything, once a validator has changed what it takes
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
        kind, inner = type(value), depth + 1
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"$float": str(value)} if math.isinf(value) else value  # the line has -0.0 as 0
        if kind is list:
            return [self._plain(one, inner) for one in value]
        if kind is dict and all(type(name) is str for name in value):
            return _escaped({name: self._plain(own, inner) for name, own in value.items()})
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
            return {
                tag: self._plain([value._name_, value._value_], inner)
            }  # "_missing_" may reuse a name
        if isinstance(value, BaseModel | BaseModelV1):
            fields = self._fields(value, inner + 1, given=_set_fields(value))
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
    return {f"${name}" if name.startswith("$") else name: value for name, value in values.items()}


def _set_fields(parsed: Any) -> Collection[str]:
    """Returns the names of the fields that a model was given."""
    names: Collection[str] = (
        parsed.__fields_set__ if isinstance(parsed, BaseModelV1) else parsed.model_fields_set
    )
    return names


def _reduce(value: Any) -> list[Any]:
    """Returns what `pickle` would make a copy of a value from, where that is all of it."""
    ways = (
        getattr(type(value), name, None) for name in ("__reduce_ex__", "__reduce__", "__getstate__")
    )
    if not all(
        (getattr(way, "__module__", None) or "builtins").partition(".")[0] in _KNOWN for way in ways
    ):
        raise _NoFormError
    try:
        create, args, state, items, pairs = (*value.__reduce_ex__(4), None, None, None)[:5]
        return [
            create.__name__,
            args,
            state,
            list(items or ()),
            [list(pair) for pair in pairs or ()],
        ]
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
