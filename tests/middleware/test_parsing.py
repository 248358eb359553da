"""The canonical form of parsed arguments: equal where a tool's function receives equal values, of equal types."""

import datetime
import decimal
import enum
import json
import pathlib
import re
import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import InjectedState
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import Field as FieldV1

from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.actions.canonical import MAX_DEPTH, read_action, to_line
from coe_agents.middleware.parsing import parsers_of


class Unit(enum.Enum):
    MILLI = "mg"
    MEGA = "Mg"


class Level(enum.IntEnum):
    LOW = 1


class Note(BaseModel):
    text: str
    loud: bool = False


class Wipe(BaseModel):
    text: str
    dry_run: bool = True
    inner: "Note | Wipe | None" = None


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")


class Sealed(BaseModel):
    text: str
    _key: str = PrivateAttr("")

    @model_validator(mode="after")
    def seal(self):
        self._key = self.text.casefold()
        return self


@dataclass
class Point:
    x: float
    y: int = 0


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int


class Pair(NamedTuple):
    a: int
    b: str


class Open(enum.StrEnum):
    A = "a"

    @classmethod
    def _missing_(cls, value):
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = "OTHER"
        member._value_ = value
        return member


class Keeping(BaseModel):
    """Keeps what it was given beside its fields."""

    text: str

    @model_validator(mode="wrap")
    @classmethod
    def keep(cls, given, parse):
        kept = parse({"text": given["text"].casefold()})
        kept.__dict__["given"] = given["text"]
        return kept


class Numbered(BaseModel):
    text: str
    _id: uuid.UUID = PrivateAttr(default_factory=uuid.uuid4)


@dataclass
class Dated:
    text: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)


class Opaque:
    """Has no form: it can be copied in a way of its own only."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Opaque) and self.value == other.value

    __hash__ = None

    def __reduce__(self):
        return Opaque, (0,)


class Alike(str):
    """Says that all copies of it are made of one text."""

    def __getnewargs__(self):
        return ("alike",)


def twin(default):
    return create_model("Twin", text=(str, ...), on=(bool, default))


TWINS = twin(False), twin(True)

KINDS = [
    int, float, str, bool, bytes, Any, int | float, str | int, list[int], list[Any], set[int], frozenset[str],
    tuple[int, str], tuple[int, ...] | list[str], set[int] | list[str], dict[str, int], dict[int, str], dict[str, Any],
    int | None, Literal["mg", "Mg"], Literal[1, True, "1"], Unit, Level, Unit | str, datetime.date, datetime.datetime,
    datetime.timedelta, decimal.Decimal, decimal.Decimal | float, uuid.UUID, pathlib.PurePosixPath, deque[int],
    SecretStr, AnyUrl, re.Pattern[str], type(None) | Point, Point, Slotted, Pair, Note, Wipe, Note | Wipe,
    list[Note | Wipe], Free, Sealed, twin(False) | twin(True), twin(True) | Note, dict[str, Note | int],
    set[Level | int],
    Open, Annotated[Any, AfterValidator(Opaque)], Annotated[int, BeforeValidator(lambda one: int(one) * 2)],
]  # fmt: skip
TEXTS = [
    "",
    "1",
    "1.0",
    "mg",
    "Mg",
    "a",
    "A",
    "a ",
    "$set",
    "2026-01-01",
    "2026-01-01T00:00:00Z",
    "1e400",
    "nan",
    "12345678-1234-5678-1234-567812345678",
    "http://a.b/c",
    "/a//b",
    "P1D",
    "[a]",
]
NUMBERS = [0, 1, 2, -0.0, 0.0, 1.0, 4.9e-10, 0.1, 10**20]
SCALARS = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS)
NAMES = st.sampled_from(
    ["text", "dry_run", "loud", "inner", "x", "y", "on", "1", "01", "$set", "$$set", "$json"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
NOTES = st.fixed_dictionaries(
    {"text": st.sampled_from("ab")},
    optional=dict.fromkeys(("dry_run", "loud", "on"), st.booleans()),
)


def same(a, b):
    """Whether two values are equal and of one type, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, BaseModel):
        return same(dict(a), dict(b)) and same(a.__pydantic_private__, b.__pydantic_private__)
    if isinstance(a, dict):
        pairs = [(one, other) for one in a for other in b if same(one, other)]
        return len(a) == len(b) == len(pairs) and all(
            same(a[one], b[other]) for one, other in pairs
        )
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(one, other) for other in b) for one in a)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Point | Slotted):
        return same(a.x, b.x) and (isinstance(a, Slotted) or same(a.y, b.y))
    return a == b and (not isinstance(a, datetime.datetime) or str(a) == str(b))


class Tool:
    def __init__(self, **fields):
        self.received = []

        def act(**arguments):
            self.received.append(arguments)
            return "ran"

        model = create_model("act", **fields)
        self.tool = StructuredTool.from_function(
            act, name="act", description="Acts.", args_schema=model
        )
        self.parsers = parsers_of([self.tool])

    def receives(self, args):
        """Returns what the function receives; None if the tool refuses the arguments."""
        try:
            self.tool.invoke(json.loads(json.dumps(args)))
        except (ValidationError, ValueError, TypeError, OverflowError):
            return None
        return self.received.pop()

    def line(self, args):
        try:
            return canonical_action(
                [{"name": "act", "args": args}], tools=[self.tool], parsers=self.parsers
            )
        except ValueError:
            return None


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@settings(max_examples=100)
@given(
    st.sampled_from(KINDS),
    st.lists(VALUES | NOTES | st.lists(NOTES, max_size=2), min_size=2, max_size=4),
    st.data(),
)
def test_lines_are_equal_where_a_tool_receives_equal_values(kind, values, data):
    is_optional = data.draw(st.booleans())
    tool = Tool(x=(kind | None, None) if is_optional else (kind, ...), y=(float, 0))
    proposals = [{"x": value} for value in values] + [{}] * is_optional
    read = [(tool.line(args), tool.receives(args), args) for args in proposals]
    for line, received, _ in read:
        assert line is None or received is not None
        assert line is None or read_action(line) is not None
    known = [(line, received, args) for line, received, args in read if line is not None]
    for line, received, args in known:
        for other, received_too, args_too in known:
            is_raw = '"$json"' in line or '"$json"' in other
            assert (line == other) <= same(received, received_too)
            assert is_raw or (line == other) is same(received, received_too), (args, args_too)
    lines = [line for line, _, _ in known]
    if lines:  # two proposals share a cluster only if they run alike
        (labels,) = ActionMatch().cluster([lines], [""])
        assert [[a == b for a in lines] for b in lines] == [
            [a == b for a in labels] for b in labels
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_line(kind):
    tool = Tool(x=(kind, ...))
    given = [
        *TEXTS,
        0,
        1,
        1.5,
        True,
        None,
        [],
        [1],
        [1, "a"],
        {"text": "a"},
        {"x": 1},
        {},
        ["a"],
        {"a": 1},
        {"1": "a"},
    ]
    lines = {tool.line({"x": value}) for value in given} - {None}
    assert lines


NAMED = f"${__name__}."
POINT = {"$tuple": [{"$type": f"{__name__}.Point"}]}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ([1, -0.0, None], [1, 0.0, None]),
        ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        ({8, 0}, {"$set": [0, 8]}),  # a set gives them in this order
        (frozenset({1}), {"$frozenset": [1]}),
        ({"a": 1, "$b": 2}, {"a": 1, "$$b": 2}),
        ({"b": 0, 1: "a"}, {"$dict": [{"$tuple": ["b", 0]}, {"$tuple": [1, "a"]}]}),
        (float("inf"), {"$float": "inf"}),
        (b"a", {"$bytes": "61"}),
        (decimal.Decimal("-1.50"), {"$decimal": "-15E-1"}),
        (decimal.Decimal("0.00"), {"$decimal": "0"}),
        (int, {"$type": "builtins.int"}),
        (Unit.MILLI, {f"{NAMED}Unit": ["MILLI", "mg"]}),
        (
            datetime.date(2026, 1, 1),
            {"$datetime.date": ["date", {"$tuple": [{"$bytes": "07ea0101"}]}, None, [], []]},
        ),
        (Point(1.5), {f"{NAMED}Point": ["__newobj__", POINT, {"x": 1.5, "y": 0}, [], []]}),
        (Sealed(text="A"), {f"{NAMED}Sealed": [{"text": "A"}, {"_key": "a"}]}),
        (
            deque([1], 2),
            {"$collections.deque": ["deque", {"$tuple": [{"$tuple": []}, 2]}, None, [1], []]},
        ),
    ],
)
def test_the_form_of_a_value(value, form):
    tool = Tool(x=(Annotated[Any, AfterValidator(lambda _: value)], ...))
    assert to_line(json.loads(tool.line({"x": 1}))[0]["args"]) == to_line(
        {"x": form}
    )  # -0.0 == 0.0 in Python


@pytest.mark.parametrize("kind", ["NaN", "Infinity"])
def test_a_decimal_that_is_no_number_is_refused(kind):
    assert (
        Tool(x=(Annotated[Any, AfterValidator(lambda _: decimal.Decimal(kind))], ...)).line(
            {"x": 1}
        )
        is None
    )


def nest_in_itself(value):
    whole = [value]
    whole.append(whole)
    return whole


def test_a_value_without_a_form_or_that_holds_itself_is_compared_as_the_json_that_was_proposed():
    tool = Tool(x=(Annotated[Any, AfterValidator(Opaque)], ...), y=(float, 0))
    assert tool.line({"x": 1, "y": 2}) == tool.line({"y": 2, "x": 1})
    assert len({tool.line({"x": x, "y": y}) for x in (1, 1.0, True, "1") for y in (2, 2.0)}) == 8
    tool = Tool(x=(Annotated[str, AfterValidator(Alike)], ...))
    assert tool.line({"x": "a"}) != tool.line({"x": "b"})
    tool = Tool(x=(Annotated[Any, AfterValidator(nest_in_itself)], ...))
    assert tool.line({"x": 1}) == '[{"args":{"x":{"$json":1}},"name":"act"}]'


class Held(BaseModel):
    held: Any = None

    @model_validator(mode="after")
    def hold(self):
        self.held = self
        return self


class Chain(BaseModel):
    next: "Chain | None" = None


class Emptied(BaseModel):
    to: list[str]
    first: str = Field(default_factory=lambda data: data["to"][0])

    @model_validator(mode="after")
    def empty(self):
        self.to.clear()
        return self


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Held, {}),
        # a model in a model is two levels deeper
        (Chain, reduce(lambda inner, _: {"next": inner}, range(MAX_DEPTH // 2), {})),
        (Emptied, {"to": ["Ann"]}),
    ],
    ids=["holds itself", "too deep", "a factory that raises"],
)
def test_a_model_without_a_form_is_compared_as_the_json_that_was_proposed(kind, value):
    line = Tool(x=(kind, ...)).line({"x": value})
    assert json.loads(line)[0]["args"] == {"x": {"$json": value}}


class Dropping(BaseModel):
    made: list = Field(default_factory=list)

    @model_validator(mode="after")
    def drop(self):
        del self.__dict__["made"]
        return self


def test_what_a_factory_makes_of_other_fields_is_left_out_and_so_is_what_a_validator_drops():
    copied = Tool(to=(str, ...), copies=(list, Field(default_factory=lambda data: [data["to"]])))
    assert copied.line({"to": "Ann"}) == '[{"args":{"to":"Ann"},"name":"act"}]'
    dropped = Tool(x=(Dropping, ...)).line({"x": {}})
    assert json.loads(dropped)[0]["args"]["x"] == {f"{NAMED}Dropping": [{}, {}]}


@pytest.mark.parametrize("kind", [Numbered, Dated])
def test_a_value_that_each_parse_makes_anew_is_compared_as_the_json_that_was_proposed(kind):
    tool = Tool(x=(kind, ...))
    assert (
        tool.line({"x": {"text": "a"}})
        == tool.line({"x": {"text": "a"}})
        != tool.line({"x": {"text": "b"}})
    )


def test_equal_arguments_have_one_form_whatever_the_clock_says():
    clock = count()
    # each two parses see one time
    tool = Tool(x=(Annotated[int, AfterValidator(lambda _: next(clock) // 2)], ...))
    assert tool.line({"x": 1}) == tool.line({"x": 1}) == '[{"args":{"x":0},"name":"act"}]'


def test_what_is_given_by_an_alias_is_compared_though_a_factory_makes_the_same():
    tool = Tool(tags=(list, Field(default_factory=list, alias="Tags")))
    assert tool.line({"Tags": []}) != tool.line({})


def test_a_plain_value_does_not_imitate_another_and_classes_of_one_name_are_told_apart():
    tool = Tool(x=(set[int] | dict[str, Any], ...))
    lines = [
        tool.line({"x": value}) for value in ([1], {"$set": [1]}, {"$$set": [1]}, {"$json": [1]})
    ]
    assert len(set(lines)) == 4
    first = twin(False)
    second = create_model("Twin", text=(str, ...), on=(bool, False), off=(bool, False))
    tool = Tool(x=(first | second, ...))
    a, b = (tool.line({"x": {"text": "t", **more}}) for more in ({}, {"off": False}))
    assert None is not a != b is not None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Open, ("b", "c")),
        (Keeping, ({"text": "A"}, {"text": "a"})),
        (
            Annotated[
                int, AfterValidator(lambda one: datetime.datetime(2026, 10, 25, 2, fold=one))
            ],
            (0, 1),
        ),
        (float, ("inf", "-inf")),
        (Free, ({"a": 1}, {"a": 2})),
        (OrderedDict[str, int], ({"a": 1}, {"a": 2})),
        (Annotated[bool, AfterValidator(lambda one: TWINS[one](text="t", on=True))], (False, True)),
    ],
)
def test_what_a_tool_can_tell_apart_has_two_lines(kind, values):
    tool = Tool(x=(kind, ...))
    first, second = (tool.line({"x": value}) for value in values)
    assert None is not first != second is not None


def test_what_a_function_takes_beside_its_names_is_passed_only_if_given_and_a_default_may_be_infinite():
    tool = Tool(x=(int, 1), kwargs=(Any, None), args=(Any, None))
    assert [tool.receives(args) for args in ({}, {"kwargs": None})] == [
        {"x": 1},
        {"x": 1, "kwargs": None},
    ]
    assert len({tool.line(args) for args in ({}, {"kwargs": None}, {"args": None})}) == 3
    tool = Tool(x=(float, float("inf")), y=(int, 0))
    assert tool.line({}) == tool.line({"x": "Infinity", "y": 0}) is not None


def test_a_model_of_version_1_is_parsed():
    class Inner(BaseModelV1):
        loud: bool = False

    class Args(BaseModelV1):
        state: Annotated[dict, InjectedState]
        inner: Inner = Inner()
        x: float
        unit: str = "EUR"
        tags: list = FieldV1(default_factory=list)

    tool = Tool(x=(int, ...))
    old = StructuredTool.from_function(
        lambda **_: "ran", name="act", description="Acts.", args_schema=Args
    )
    tool.tool = old
    tool.parsers = parsers_of([old])
    line = tool.line({"x": "1"})
    assert line == tool.line({"x": 1, "unit": "EUR", "inner": {"loud": False}})
    assert json.loads(line)[0]["args"].keys() == {"x", "unit", "inner"}
    assert tool.line({"x": "a"}) is None
