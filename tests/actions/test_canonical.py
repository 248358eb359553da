import json
import math
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.actions import canonical_action
from coe_agents.actions.canonical import MAX_CHARS, read_action, write_action
from coe_agents.actions.schemas import fits, read_tools, schemas_of


def call(name="f", **args):
    return {"name": name, "args": args}


def schema(name="f", **properties):
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


def action(args, *tools):
    return canonical_action([{"name": "f", "args": args}], tools=tools)


def same(a, b, *tools):
    return canonical_action([a], tools=tools) == canonical_action([b], tools=tools)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(-1e6, 1e6)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
CALLS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc"), "args": ARGUMENTS}), max_size=3
)


@given(CALLS, st.randoms(use_true_random=False))
def test_it_is_one_line_that_is_read_back_and_depends_on_no_order_of_calls_or_keys(calls, rng):
    action = canonical_action(calls)
    assert action.splitlines() == [action]
    assert canonical_action(json.loads(action)) == action  # canonical already
    assert sorted(map(json.dumps, read_action(action))) == sorted(
        map(json.dumps, json.loads(action))
    )
    shuffled = [
        {"args": dict(rng.sample(list(one["args"].items()), len(one["args"]))), "name": one["name"]}
        for one in calls
    ]
    assert canonical_action(rng.sample(shuffled, len(shuffled))) == action


EQUAL = [(1, 1.0), ((1, 2), [1.0, 2.0]), ({"x": 1, "y": 2}, {"y": 2, "x": 1}), (-0.0, 0)]
NUMBERS = [
    (0.1 + 0.2, 0.3),
    (4.9e-10, 0),
    (1, "1"),
    (1, True),
    ([1, 2], [2, 1]),
    ([10**30], [10**30 + 1]),
]
TEXTS = [
    (None, "null"),
    ("New York", "new york"),
    ("if x:\n    a()\nb()", "if x:\n    a()\n    b()"),
    ("a,b", "a b"),
]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [*((*pair, True) for pair in EQUAL), *((*pair, False) for pair in NUMBERS + TEXTS)],
)
def test_values(a, b, equal):
    assert same(call(x=a), call(x=b)) is equal


def test_repetitions_and_the_order_of_an_array_count_and_ids_and_dots_in_names_do_not():
    assert (
        canonical_action([call(), call()])
        != canonical_action([call()])
        != canonical_action([])
        == "[]"
    )
    assert same({**call("bank.pay"), "id": "call_1", "type": "tool_call"}, call("bank_pay"))
    assert not same(
        call(x=["b", "a"]), call(x=["a", "b"]), schema(x={"type": "array", "uniqueItems": True})
    )


# schemas

UNIT = {"type": "string", "default": "EUR"}
EUR = {"unit": "EUR"}
LISTED = {"type": "array", "items": {"properties": {"unit": UNIT}}}


@pytest.mark.parametrize(
    ("properties", "given", "filled"),
    [
        ({"unit": UNIT}, {}, EUR),
        ({"x": {"type": "dict", "properties": {"unit": UNIT}}}, {"x": {}}, {"x": EUR}),
        ({"x": LISTED}, {"x": [{}]}, {"x": [EUR]}),
        ({"x": {"anyOf": [LISTED, {"type": "string"}]}}, {"x": [{}]}, {"x": [EUR]}),
        ({"x": {"default": 1, "allOf": [{"default": 2}]}}, {}, {"x": 1}),
        (
            {"x": {"default": {"a": 1.0}, "properties": {"b": {"default": 2}}}},
            {},
            {"x": {"a": 1}},
        ),  # as it is stated
        (
            {"x": {"default": {"a": 1.0}, "properties": {"b": {"default": 2}}}},
            {"x": {"a": 1}},
            {"x": {"a": 1, "b": 2}},
        ),
    ],
)
def test_a_default_is_filled_in_wherever_the_schema_states_it(properties, given, filled):
    assert json.loads(action(given, schema(**properties)))[0]["args"] == filled
    assert action(given, schema("other", **properties)) == action(given)


def test_defaults_come_through_references_patterns_and_all_of():
    unit = {"properties": {"unit": {"$ref": "#/$defs/unit"}}}
    tool = {
        "name": "f",
        "parameters": {
            "$defs": {"unit": {"default": "EUR"}, "a/b": unit},
            "allOf": [
                {"properties": {"x": {"$ref": "#/$defs/a~1b"}}},
                {"properties": {"y": {"default": -0.0}}},
            ],
            "patternProperties": {"^p": {"allOf": [{"type": "object"}, unit]}},
            "additionalProperties": {"$ref": "#/$defs/a~1b"},
        },
    }
    written = action({"x": {}, "p1": {}, "other": {}}, tool)
    assert json.loads(written)[0]["args"] == {"x": EUR, "p1": EUR, "other": EUR, "y": 0}


def test_a_pattern_that_is_no_text_matches_nothing():
    schema = {"patternProperties": {5: {"properties": {"unit": {"default": "EUR"}}}}}
    written = action({"5": {}}, {"name": "f", "parameters": schema})
    assert json.loads(written)[0]["args"] == {"5": {}}


def test_patterns_are_matched_in_linear_time_and_one_that_is_not_matched_leaves_both_ways_open():
    unit = {"properties": {"unit": {"default": "EUR"}}}

    def under(pattern, name):
        tool = {"name": "f", "parameters": {"patternProperties": {pattern: unit}}}
        return json.loads(action({name: {}}, tool))[0]["args"][name]

    long = "a" * 250 + "!"
    for pattern, name, is_matched in (
        ("(a+)+$", long, False),  # Python's own engine would still be at it
        ("([a-z]*)*!$", long, True),
        (r"^(\w|\d)+$", "é1", True),
        ("a$", "a\n", False),
        ("[", "[", False),
    ):
        assert under(pattern, name) == (EUR if is_matched else {})
    # look-around, references back, repetition by number, and long ones: whether they match is not known
    for pattern in ("^(?!x)", r"(a)\1", "^a{2}$", "|".join("a" * 60)):
        with pytest.raises(ValueError, match="fits several alternatives"):
            under(pattern, "b")
        tool = {"name": "f", "parameters": {"patternProperties": {pattern: {"type": "number"}}}}
        assert same(call(b=1), call(b=1.0), tool)  # nor does it matter, mostly


@pytest.mark.parametrize("n", [99, 2_000])
def test_patterns_count_as_work(n):
    """99 of them would take seconds to compile, and 2,000 to match with each name."""
    pattern = r"\w" * 30 if n < 100 else "^x"
    tool = {
        "name": "f",
        "parameters": {"patternProperties": {f"{pattern}{i}": {} for i in range(n)}},
    }
    with pytest.raises(ValueError, match="take no more work to read"):
        action({f"y{i}": 1 for i in range(1000)}, tool)


def test_references_go_through_lists_and_escaped_names_and_may_not_turn_in_circles():
    parts = [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]
    places = {"x": "list/1", "y": "~0~1", "z": "list/2", "w": "list/b/c"}
    properties = {name: {"$ref": f"#/$defs/{place}"} for name, place in places.items()}
    tool = {
        "name": "f",
        "parameters": {"$defs": {"list": parts, "~/": parts[0]}, "properties": properties},
    }
    written = json.loads(action({"x": {}, "y": {}, "z": {}, "w": {}}, tool))[0]["args"]
    assert written == {"x": {"b": 2}, "y": {"a": 1}, "z": {}, "w": {}}
    node = {
        "type": "object",
        "properties": {"unit": {"default": 1}, "next": {"$ref": "#/$defs/node"}},
    }
    tool = {
        "name": "f",
        "parameters": {"properties": {"x": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}},
    }
    assert same(call(x={"next": {}}), call(x={"next": {"unit": 1}, "unit": 1}), tool)
    own = {"$ref": "#/properties/x"}
    for stated in (
        own,
        {"$ref": "#/nowhere"},
        *({key: [own, own]} for key in ("anyOf", "oneOf", "allOf")),
    ):
        assert same(call(x=1), call(x=1.0), schema(x=stated))


@pytest.mark.parametrize(("listed", "given"), [([1], 1), (1, [1]), ({"a": 1}, 1), (True, 1)])
def test_what_a_schema_lists_is_compared_by_kind(listed, given):
    assert not fits({"enum": [listed]}, given)
    assert fits({"enum": [listed]}, listed)


@pytest.mark.parametrize(
    "first", [{"$ref": "#/$defs/own"}, {"items": {"$ref": "#/$defs/own"}}, {"type": "null"}]
)
def test_a_default_beside_alternatives_is_filled_in_where_a_reference_leads_to_it(first):
    own = {"default": "EUR", "anyOf": [first, {"type": "string"}]}
    for stated in ({"$ref": "#/$defs/own"}, {"allOf": [{"$ref": "#/$defs/own"}]}):
        tool = {"name": "f", "parameters": {"properties": {"unit": stated}, "$defs": {"own": own}}}
        assert json.loads(action({}, tool))[0]["args"] == EUR


def test_several_defaults_are_refused_where_they_are_needed():
    stated = {"properties": {"x": {"default": 1}}, "allOf": [{"properties": {"x": {"default": 2}}}]}
    tool = {"name": "f", "parameters": stated}
    assert action({"x": 1}, tool) != action({"x": 2}, tool)
    with pytest.raises(ValueError, match="several defaults of 'x'"):
        action({}, tool)


@pytest.mark.parametrize(
    "stated",
    [
        {"enum": ["A", "a"]},
        {"const": "A"},
        {"format": "date"},
        {"anyOf": [{"type": "null"}, {"enum": ["A"]}]},
        {"enum": ["A", "a"], "anyOf": [{"type": "string"}, {"type": "null"}]},
        {"enum": ["A", "a"], "$ref": "#/$defs/text"},
        {"anyOf": [{"allOf": [{"$ref": "#/$defs/text"}, {"enum": ["A", "a"]}]}]},
    ],
)
def test_the_texts_that_a_schema_fixes_are_named(stated):
    tool = {
        "name": "f",
        "parameters": {"$defs": {"text": {"type": "string"}}, "properties": {"x": stated, "y": {}}},
    }
    assert (
        action({"x": "A", "y": "A"}, tool)
        == '[{"args":{"x":"A","y":"A"},"exact":["x"],"name":"f"}]'
    )
    tool["parameters"]["anyOf"] = [{"required": ["x"]}, {"required": ["z"]}]
    assert '"exact":["x"]' in action({"x": "A"}, tool)


NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
WIPE = {
    "type": "object",
    "properties": {**NOTE["properties"], "dry_run": {"type": "boolean", "default": False}},
}


@pytest.mark.parametrize(
    "stated",
    [
        {"anyOf": [NOTE, WIPE]},
        {"oneOf": [{"$ref": "#/$defs/note"}, {"allOf": [{"$ref": "#/$defs/wipe"}]}]},
        {"allOf": [{"anyOf": [WIPE, NOTE]}]},
        {"properties": {"in": {"anyOf": [WIPE, NOTE]}}},
        {"additionalProperties": {"anyOf": [WIPE, NOTE]}},
    ],
)
def test_what_fits_several_alternatives_differently_or_none_is_refused(stated):
    tool = {
        "name": "f",
        "parameters": {"$defs": {"note": NOTE, "wipe": WIPE}, "properties": {"x": stated}},
    }
    wrap = (
        (lambda one: {"in": one})
        if {"properties", "additionalProperties"} & stated.keys()
        else (lambda one: one)
    )
    # a server that takes the first alternative drops what it does not name
    for several in ({"text": "a"}, {"text": "a", "loud": True}):
        with pytest.raises(
            ValueError, match="fits several alternatives in the tool's schema differently"
        ):
            action({"x": wrap(several)}, tool)
    for neither in ({"text": 1}, "a"):
        with pytest.raises(ValueError, match="fits none of the alternatives"):
            action({"x": wrap(neither)}, tool)
    dry, wet = ({"x": wrap({"text": "a", "dry_run": value})} for value in (True, False))
    assert action(dry, tool) != action(wet, tool)


def test_an_alternative_that_is_closed_or_misfits_beside_a_doubt_is_ruled_out():
    closed = {"additionalProperties": False}
    mail = {"properties": {"to": {}, "dry_run": {"default": True}}}
    sms = {"properties": {"to": {}, "number": {}, "dry_run": {"default": False}}}
    text = {"x": {"to": "Ann", "number": 5}}
    with pytest.raises(ValueError, match="several alternatives"):
        action(text, schema(x={"anyOf": [mail, sms]}))
    assert '"dry_run":false' in action(text, schema(x={"anyOf": [{**mail, **closed}, sms]}))
    parts = {"allOf": [{**mail, **closed}, {"properties": {"number": {}}}]}
    assert '"dry_run":true' in action(text, schema(x={"anyOf": [parts, {"type": "null"}]}))
    doubtful = {"anyOf": [NOTE, WIPE]}
    first = {"type": "object", "properties": {"x": doubtful, "kind": {"const": "a"}}}
    second = {"type": "object", "properties": {"x": {"type": "object"}, "kind": {"const": "b"}}}
    tool = schema(y={"anyOf": [first, second]})
    assert action({"y": {"x": {"text": "t"}, "kind": "b"}}, tool)
    with pytest.raises(ValueError, match="several alternatives"):
        action({"y": {"x": {"text": "t"}, "kind": "a"}}, tool)


@pytest.mark.parametrize(
    ("one", "other", "given"),
    [(1, True, 1.0), ("a", "b", "a"), ([1, {"k": 1}], [True], [1, {"k": 1.0}])],
)
def test_alternatives_are_told_apart_by_their_constants_and_their_types(one, other, given):
    options = [
        {"properties": {"k": {"const": k}, "d": {"default": d}}} for k, d in ((one, 1), (other, 2))
    ]
    either = schema(x={"oneOf": options})
    assert '"d":1' in action({"x": {"k": given}}, either)
    assert '"d":2' in action({"x": {"k": other}}, either)


def test_what_takes_too_much_work_to_read_is_refused():
    links = {f"d{place}": {"$ref": f"#/$defs/d{place + 1}"} for place in range(66)}
    chain = {
        "name": "f",
        "parameters": {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": links},
    }
    with pytest.raises(ValueError, match="from reference to reference at most"):
        action({"x": 1}, chain)
    many = schema(
        x={"type": "array", "items": {"anyOf": [{"const": {"k": k}} for k in range(300)]}}
    )
    texts = schema(x={"anyOf": [{"type": "string", "minLength": n} for n in range(300)]})
    for tool, value in ((many, [{"k": k % 300} for k in range(3_000)]), (texts, "a" * 50_000)):
        with pytest.raises(ValueError, match="take no more work to read"):
            action({"x": value}, tool)


@pytest.mark.parametrize(
    "stated",
    [
        None,
        [],
        "x",
        {"properties": []},
        {"properties": {"x": 3}},
        {"type": ["float", "null"]},
        *({"properties": {"x": {"prefixItems": places}}} for places in ({"a": 1}, 3, "ab", [3])),
    ],
)
def test_a_schema_that_says_nothing_changes_nothing(stated):
    for one, other in ((1, 1.0), ([1, 2], [1.0, 2.0])):
        assert same(call(x=one), call(x=other), {"name": "f", "parameters": stated})


@pytest.mark.parametrize(
    "where", [{"function": {"parameters": 0}}, {"input_schema": 0}, {"inputSchema": 0}]
)
def test_schemas_of_providers(where):
    stated = {"properties": {"unit": UNIT}}
    tools = json.loads(json.dumps(where).replace("0", json.dumps(stated)))
    (tools.get("function") or tools)["name"] = "f"
    assert same(call(), call(unit="EUR"), tools)


def test_a_parser_says_what_is_compared_and_may_change_what_it_is_given_but_numbers_are_finite():
    def parse(args):
        args["x"] = float(args["x"])
        return args

    calls = [call(x="10")]
    assert canonical_action(calls, parsers={"f": parse}) == '[{"args":{"x":10.0},"name":"f"}]'
    assert calls == [call(x="10")]
    with pytest.raises(ValueError, match="must be finite"):
        canonical_action([call(x="nan")], parsers={"f": parse})
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="numbers must be finite; got"):
            canonical_action([call(x=[number])])


def test_the_items_of_an_array_are_read_by_their_places_and_the_rest_by_items():
    eur, usd = ({"properties": {"unit": {"default": unit}}} for unit in ("EUR", "USD"))
    tool = schema(x={"prefixItems": [eur], "items": usd})
    assert json.loads(action({"x": [{}, {}]}, tool))[0]["args"] == {
        "x": [{"unit": "EUR"}, {"unit": "USD"}]
    }
    both = schema(x={"allOf": [{"items": eur}, {"items": {"properties": {"n": {"default": 1}}}}]})
    assert json.loads(action({"x": [{}]}, both))[0]["args"] == {"x": [{"unit": "EUR", "n": 1}]}


# what is refused


def test_size_depth_and_work_are_bounded():
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}):
        deep = 1
        for _ in range(31):
            deep = wrap(deep)
        assert canonical_action([call(x=deep)])
        with pytest.raises(ValueError, match="nested at most 32 levels"):
            canonical_action([call(x=wrap(deep))])
    longest = "x" * (MAX_CHARS - len(canonical_action([call(x="")])))
    line = canonical_action([call(x=longest)])
    assert len(line) == MAX_CHARS
    assert read_action(line) == [call(x=longest)]
    assert read_action(line + " ") is read_action('[{"args":{},"name":"f"},{"name":"f"}]') is None
    with pytest.raises(ValueError, match="at most 100000 characters; got 100001"):
        canonical_action([call(x=longest + "x")])
    many = {f"a{place}": place for place in range(12_000)}
    free = {
        "name": "f",
        "parameters": {"properties": {"a": {"default": 1}}, "additionalProperties": {}},
    }
    for tools in ([], [free]):
        with pytest.raises(ValueError, match="at most 100000 characters"):
            canonical_action([call(**many)], tools=tools)
    multiplying = schema(x={"items": {"properties": {"y": {"default": "a" * 1000}}}})
    of_many_parts = schema(x={"allOf": [{}] * 100})
    of_many_fields = schema(x={"items": {"properties": {f"y{i}": {} for i in range(500)}}})
    for tool, value in (
        (multiplying, [{}] * 1000),
        (of_many_parts, [0] * 40_000),
        (of_many_fields, [{}] * 300),
    ):
        with pytest.raises(ValueError, match="at most 100000 characters, and take no more work"):
            action({"x": value}, tool)
    # what a parser reads is looked at for texts that the schema fixes
    of_many_ways = {"additionalProperties": {"anyOf": [{"minLength": n} for n in range(400)]}}
    many = {f"a{place}": "x" for place in range(400)}
    with pytest.raises(ValueError, match="take no more work"):
        write_action([call(**many)], {"f": of_many_ways}, {"f": dict})


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("pay", "must be a sequence of calls; got str"),
        (call(), "Wrap a single call in a list"),
        (["pay"], 'must have a "name" and a mapping "args"'),
        ([{"name": "", "args": {}}], 'must have a "name" and a mapping "args"'),
        ([call(3)], 'must have a "name" and a mapping "args"'),
        ([call(x={1, 2})], "must be JSON values; got set"),
        ([call(x={1: 2})], "names of arguments must be strings"),
    ],
)
def test_what_is_no_call_is_refused(calls, message):
    with pytest.raises(TypeError, match=message):
        canonical_action(calls)


@pytest.mark.parametrize(
    "tools", ["pay", {"name": "pay"}, [3], [{"function": 3}], [{"parameters": {}}], [random]]
)
def test_what_is_no_tool_is_refused(tools):
    with pytest.raises(TypeError, match=r"must be a sequence of tools|a tool must have a name"):
        canonical_action([call()], tools=tools)


@pytest.mark.parametrize(
    ("stated", "fitting", "others"),
    [
        ({"type": "integer"}, [1, 1.0], [1.5, True, "1"]),
        ({"type": "number"}, [1, 1.5], [True]),
        ({"type": "boolean"}, [True], [1]),
        ({"type": "object"}, [{}], [[]]),
        ({"type": ["string", "integer"]}, ["a", 1], [1.5]),
        ({"type": "any"}, [True, 1, "a"], []),
        ({"const": [1, [True]]}, [[1, [True]], [1.0, [True]]], [[1, [1]], [1], {}]),
        (
            {"const": {"a": 1, "b": 1}},
            [{"a": 1, "b": 1}],
            [{"a": True, "b": 1}, {"a": 1, "b": 2}, {"a": 1}, []],
        ),
        ({"enum": [1, "a"]}, [1, "a"], [True, "b"]),
        ({"enum": "ab"}, ["c"], []),
        ({"required": ["a"]}, [{"a": 1}, "text"], [{}]),
    ],
)
def test_what_fits_an_alternative(stated, fitting, others):
    tool = schema("f", x={"anyOf": [stated, {"type": "null"}]})
    for value in fitting:
        assert action({"x": value}, tool)
    for value in others:
        with pytest.raises(ValueError, match="fits none of the alternatives"):
            action({"x": value}, tool)


def test_what_only_a_mutation_showed():
    """Each is a line of `schemas` that a change survived before."""
    assert action({"x": 1}, schema("f", x={"enum": [1, 2]})) == '[{"args":{"x":1},"name":"f"}]'
    either = [
        {"type": "integer", "default": 2},
        {"type": "null"},
    ]  # of which alternative is not known
    tool = schema("f", x={"default": 1, "anyOf": either}, y={"anyOf": either}, z=True)
    assert action({}, tool) == '[{"args":{"x":1},"name":"f"}]'
    number, text = (
        {"properties": {"x": {"anyOf": [{"type": kind}, {"type": "null"}]}}}
        for kind in ("number", "string")
    )
    assert action({"y": {"x": "a"}}, schema("f", y={"anyOf": [number, text]}))
    both = schema("f", x={"enum": ["a"]}, y={"enum": ["b"]})
    assert same(call(x="a", y="b"), call(y="b", x="a"), both)  # in whatever order
    closed = schema("f", x={"properties": {}, "additionalProperties": False})
    assert (
        action({"x": {"y": 1}}, closed) == '[{"args":{"x":{"y":1}},"name":"f"}]'
    )  # the tool refuses it, or not
    assert read_action('[{"args":{},"name":"f","name":"g"}]') is None
    own = {"type": "string"}
    other = {"type": "number"}
    part = {
        "properties": {"x": own},
        "then": {"properties": {"x": other}},
        "additionalProperties": other,
    }
    assert schemas_of("x", [part]) == [own]
    model = SimpleNamespace(model_json_schema=lambda: closed)
    tools = [SimpleNamespace(name="f", tool_call_schema=stated) for stated in (closed, model)]
    assert read_tools([*tools, {"name": "f", "parameters": None}]) == [("f", closed)] * 2 + [
        ("f", {})
    ]
