import json
import math
import random
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool

from coe_agents.actions import canonical_action
from coe_agents.actions.canonical import MAX_CHARS


def call(name="pay", **args):
    return {"name": name, "args": args}


def schema(name="pay", **properties):
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


def same(a, b, *tools):
    return canonical_action([a], tools=tools) == canonical_action([b], tools=tools)


def action(args, *, tools):
    return canonical_action([{"name": "f", "args": args}], tools=tools)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.builds(
        lambda name, args: {"name": name, "args": args}, st.sampled_from("abc"), st.dictionaries(st.text(), JSON)
    ),
    max_size=4,
)


@given(CALLS, st.randoms(use_true_random=False))
def test_it_is_one_line_and_depends_on_no_order_of_calls_or_keys(calls, rng):
    action = canonical_action(calls)
    assert action.splitlines() == [action]
    assert canonical_action(json.loads(action)) == action  # canonical already
    shuffled = [
        {"args": dict(rng.sample(list(one["args"].items()), len(one["args"]))), "name": one["name"]} for one in calls
    ]
    assert canonical_action(rng.sample(shuffled, len(shuffled))) == action


def test_the_order_of_calls_counts_if_asked():
    calls = [call("b"), call("a")]
    assert canonical_action(calls) == canonical_action(calls[::-1]) == '[{"args":{},"name":"a"},{"args":{},"name":"b"}]'


def test_repeated_calls_count():
    assert canonical_action([call(), call()]) != canonical_action([call()]) != canonical_action([]) == "[]"


def test_ids_and_dots_in_names_do_not_count():
    assert same({**call("bank.pay"), "id": "call_1", "type": "tool_call"}, call("bank_pay"))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1, "1", False),
        (1, True, False),
        (0, False, False),
        (None, "null", False),
        ("New  York ", "new york", True),
        ("STRASSE", "straße", True),
        ("a,b", "a b", False),
        ([1, 2], [2, 1], False),
        ((1, 2), [1.0, 2.0], True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        (10**30, 10**30 + 1, False),
        (-0.0, 0, True),
    ],
)
def test_values(a, b, equal):
    assert same(call(x=a), call(x=b)) is equal


def test_a_default_is_filled_in_wherever_the_schema_states_it():
    unit = {"type": "string", "default": "EUR"}
    assert same(call(), call(unit="eur"), schema(unit=unit))
    assert not same(call(), call(unit="USD"), schema(unit=unit))
    nested = schema(to={"type": "dict", "properties": {"unit": unit}})
    assert same(call(to={"name": "Ann"}), call(to={"name": "Ann", "unit": "EUR"}), nested)
    items = schema(parts={"type": "array", "items": {"type": "object", "properties": {"unit": unit}}})
    assert same(call(parts=[{}]), call(parts=[{"unit": "EUR"}]), items)


def test_a_default_of_one_tool_is_not_of_another():
    tools = [schema(unit={"default": "EUR"})]
    assert canonical_action([call("ask")], tools=tools) == '[{"args":{},"name":"ask"}]'


def test_an_enum_keeps_its_case():
    assert not same(call(x="High"), call(x="high"), schema(x={"enum": ["High", "high"]}))
    assert same(call(x="High"), call(x="high"), schema(x={"type": "string"}))


def test_an_array_of_different_items_has_no_order():
    tags = schema(x={"type": "array", "uniqueItems": True})
    assert same(call(x=["b", "a"]), call(x=["a", "b"]), tags)


def test_alternatives_are_read_by_the_type_of_the_value():
    either = schema(x={"anyOf": [{"type": "array", "uniqueItems": True}, {"type": "string", "enum": ["All"]}]})
    assert same(call(x=[2, 1]), call(x=[1, 2]), either)
    assert not same(call(x="All"), call(x="all"), either)


def test_references_are_followed_and_may_not_turn_in_circles():
    node = {"type": "object", "properties": {"unit": {"default": 1}, "next": {"$ref": "#/$defs/node"}}}
    tools = {"name": "pay", "parameters": {"properties": {"x": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}}
    assert same(call(x={"next": {}}), call(x={"next": {"unit": 1}, "unit": 1}), tools)
    circle = {
        "name": "pay",
        "parameters": {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
    }
    assert same(call(x=1), call(x=1.0), circle)
    assert same(call(x=1), call(x=1.0), schema(x={"$ref": "#/nowhere"}))


@pytest.mark.parametrize(
    "stated",
    [
        {"enum": ["A", "a"], "anyOf": [{"type": "string"}, {"type": "null"}]},
        {"enum": ["A", "a"], "$ref": "#/$defs/text"},
        {"allOf": [{"type": "string"}, {"enum": ["A", "a"]}]},
        {"anyOf": [{"allOf": [{"$ref": "#/$defs/text"}, {"enum": ["A", "a"]}]}]},
    ],
)
def test_what_is_stated_beside_references_and_alternatives_counts(stated):
    tool = {"name": "f", "parameters": {"$defs": {"text": {"type": "string"}}, "properties": {"x": stated}}}
    assert action({"x": "A"}, tools=[tool]) != action({"x": "a"}, tools=[tool])


def test_the_fields_of_an_object_with_alternatives_count():
    path = {"path": {"enum": ["A", "a"]}}
    tool = {"name": "f", "parameters": {"properties": path, "anyOf": [{"required": ["path"]}, {"required": ["x"]}]}}
    assert action({"path": "A"}, tools=[tool]) != action({"path": "a"}, tools=[tool])


def test_the_alternatives_of_an_object_are_told_apart_by_their_constants():
    first = {"type": "object", "properties": {"kind": {"const": "a"}, "to": {"default": "Eve"}}}
    second = {"type": "object", "properties": {"kind": {"const": "b"}, "to": {"type": "string"}}}
    tool = {"name": "f", "parameters": {"properties": {"x": {"oneOf": [first, second]}}}}
    for kind, equal in (("a", True), ("b", False)):
        written = action({"x": {"kind": kind}}, tools=[tool]), action({"x": {"kind": kind, "to": "Eve"}}, tools=[tool])
        assert (written[0] == written[1]) is equal


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_alternatives_may_not_turn_in_circles(key):
    own = {"$ref": "#/properties/x"}
    tool = {"name": "f", "parameters": {"properties": {"x": {key: [own, own]}}}}
    assert action({"x": "A"}, tools=[tool]) == action({"x": "a"}, tools=[tool])


def test_defaults_that_multiply_are_bounded():
    levels = {
        f"L{n}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/L{n + 1}", "default": {}} for side in "lr"}}
        for n in range(25)
    }
    tool = {"name": "f", "parameters": {"$defs": levels, "properties": {"x": {"$ref": "#/$defs/L0"}}}}
    with pytest.raises(ValueError, match="at most 100000 characters"):
        action({"x": {}}, tools=[tool])


def test_tools_of_langchain():
    @tool
    def pay(to: str, unit: Annotated[str, "the currency"] = "EUR", speed: Literal["Slow", "Fast"] = "Slow") -> str:
        """Pays."""
        return to + unit + speed

    assert same(call(to="Ann"), call(to="ann", unit="EUR", speed="Slow"), pay)
    assert not same(call(to="Ann", speed="slow"), call(to="Ann"), pay)


@pytest.mark.parametrize("where", [{"function": {"parameters": 0}}, {"input_schema": 0}, {"inputSchema": 0}])
def test_schemas_of_providers(where):
    stated = {"properties": {"unit": {"default": "EUR"}}}
    tools = json.loads(json.dumps(where).replace("0", json.dumps(stated)))
    (tools.get("function") or tools)["name"] = "pay"
    assert same(call(), call(unit="EUR"), tools)


@pytest.mark.parametrize(
    "stated", [None, [], "x", {"properties": []}, {"properties": {"x": 3}}, {"type": ["float", "null"]}]
)
def test_a_schema_that_says_nothing_changes_nothing(stated):
    assert same(call(x=1), call(x=1.0), {"name": "pay", "parameters": stated})


@pytest.mark.parametrize("places", [{"a": 1}, 3, "ab", [3]])
def test_places_that_are_no_list_of_schemas_say_nothing(places):
    stated = {"properties": {"x": {"prefixItems": places}}}
    assert same(call(x=[1, 2]), call(x=[1.0, 2.0]), {"name": "pay", "parameters": stated})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(number):
    with pytest.raises(ValueError, match="numbers must be finite; got"):
        canonical_action([call(x=[number])])


def test_size_and_depth_are_bounded():
    deep = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ValueError, match="nested at most 32 levels"):
        canonical_action([call(x=deep)])
    with pytest.raises(ValueError, match="at most 100000 characters; got"):
        canonical_action([call(x="x" * MAX_CHARS)])


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("pay", "must be a sequence of calls; got str"),
        (call(), "Wrap a single call in a list"),
        (["pay"], 'must have a "name" and a mapping "args"'),
        ([{"name": "pay"}], 'must have a "name" and a mapping "args"'),
        ([{"name": "", "args": {}}], 'must have a "name" and a mapping "args"'),
        ([call(x={1, 2})], "must be JSON values; got set"),
        ([call(x={1: 2})], "names of arguments must be strings"),
    ],
)
def test_what_is_no_call_is_refused(calls, message):
    with pytest.raises(TypeError, match=message):
        canonical_action(calls)


@pytest.mark.parametrize("tools", ["pay", {"name": "pay"}, [3], [{"parameters": {}}], [random]])
def test_what_is_no_tool_is_refused(tools):
    with pytest.raises(TypeError, match=r"must be a sequence of tools|a tool must have a name"):
        canonical_action([call()], tools=tools)
