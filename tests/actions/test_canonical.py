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


def tool_f(**parameters):
    """The tool "f", whose parameters have these keywords."""
    return {"name": "f", "parameters": parameters}


def action(args, *tools):
    return canonical_action([{"name": "f", "args": args}], tools=tools)


def args_of(args, *tools):
    """The arguments of a call, as they are in canonical form."""
    [written] = json.loads(action(args, *tools))
    return written["args"]


def same(a, b, *tools):
    one = canonical_action([a], tools=tools)
    other = canonical_action([b], tools=tools)
    return one == other


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(-1e6, 1e6)
    | st.text(max_size=8)
)
NAMES = st.text(max_size=4)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(NAMES, JSON, max_size=3)
CALL = st.fixed_dictionaries({"name": st.sampled_from("abc"), "args": ARGUMENTS})
CALLS = st.lists(CALL, max_size=3)


@given(CALLS, st.randoms(use_true_random=False))
def test_it_is_one_line_that_is_read_back_and_depends_on_no_order_of_calls_or_keys(calls, rng):
    action = canonical_action(calls)
    assert action.splitlines() == [action]
    written = json.loads(action)
    assert canonical_action(written) == action  # canonical already
    read = read_action(action)
    assert sorted(map(json.dumps, read)) == sorted(map(json.dumps, written))

    shuffled = []
    for one in calls:
        args = list(one["args"].items())
        shuffled_args = dict(rng.sample(args, len(args)))
        shuffled.append({"args": shuffled_args, "name": one["name"]})
    in_another_order = rng.sample(shuffled, len(shuffled))
    assert canonical_action(in_another_order) == action


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
    nothing = canonical_action([])
    once = canonical_action([call()])
    twice = canonical_action([call(), call()])
    assert nothing == "[]"
    assert once != nothing
    assert twice != once

    with_an_id = {**call("bank.pay"), "id": "call_1", "type": "tool_call"}
    assert same(with_an_id, call("bank_pay"))

    unique = schema(x={"type": "array", "uniqueItems": True})
    assert not same(call(x=["b", "a"]), call(x=["a", "b"]), unique)


# schemas

UNIT = {"type": "string", "default": "EUR"}
EUR = {"unit": "EUR"}
HAS_UNIT = {"properties": {"unit": {"default": "EUR"}}}
LISTED = {"type": "array", "items": {"properties": {"unit": UNIT}}}


LISTED_OR_TEXT = {"anyOf": [LISTED, {"type": "string"}]}
OF_TWO_DEFAULTS = {"default": 1, "allOf": [{"default": 2}]}
# as it is stated
WITHIN_A_DEFAULT = {"default": {"a": 1.0}, "properties": {"b": {"default": 2}}}


@pytest.mark.parametrize(
    ("properties", "given", "filled"),
    [
        ({"unit": UNIT}, {}, EUR),
        ({"x": {"type": "dict", "properties": {"unit": UNIT}}}, {"x": {}}, {"x": EUR}),
        ({"x": LISTED}, {"x": [{}]}, {"x": [EUR]}),
        ({"x": LISTED_OR_TEXT}, {"x": [{}]}, {"x": [EUR]}),
        ({"x": OF_TWO_DEFAULTS}, {}, {"x": 1}),
        ({"x": WITHIN_A_DEFAULT}, {}, {"x": {"a": 1}}),
        ({"x": WITHIN_A_DEFAULT}, {"x": {"a": 1}}, {"x": {"a": 1, "b": 2}}),
    ],
)
def test_a_default_is_filled_in_wherever_the_schema_states_it(properties, given, filled):
    assert args_of(given, schema(**properties)) == filled
    of_another_tool = schema("other", **properties)
    assert action(given, of_another_tool) == action(given)


def test_defaults_come_through_references_patterns_and_all_of():
    unit = {"properties": {"unit": {"$ref": "#/$defs/unit"}}}
    reference = {"$ref": "#/$defs/a~1b"}
    parameters = {
        "$defs": {"unit": {"default": "EUR"}, "a/b": unit},
        "allOf": [{"properties": {"x": reference}}, {"properties": {"y": {"default": -0.0}}}],
        "patternProperties": {"^p": {"allOf": [{"type": "object"}, unit]}},
        "additionalProperties": reference,
    }
    filled = args_of({"x": {}, "p1": {}, "other": {}}, tool_f(**parameters))
    assert filled == {"x": EUR, "p1": EUR, "other": EUR, "y": 0}


def test_a_pattern_that_is_no_text_matches_nothing():
    tool = tool_f(patternProperties={5: HAS_UNIT})
    assert args_of({"5": {}}, tool) == {"5": {}}


def test_patterns_are_matched_in_linear_time_and_one_that_is_not_matched_leaves_both_ways_open():
    def under(pattern, name):
        tool = tool_f(patternProperties={pattern: HAS_UNIT})
        return args_of({name: {}}, tool)[name]

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
        of_number = tool_f(patternProperties={pattern: {"type": "number"}})
        assert same(call(b=1), call(b=1.0), of_number)  # nor does it matter, mostly


@pytest.mark.parametrize(
    ("n", "pattern"),
    [
        # 99 of them would take seconds to compile
        (99, r"\w" * 30),
        # 2,000 of them would take seconds to match with each name
        (2_000, "^x"),
    ],
)
def test_patterns_count_as_work(n, pattern):
    tool = tool_f(patternProperties={f"{pattern}{i}": {} for i in range(n)})
    args = {f"y{i}": 1 for i in range(1000)}
    with pytest.raises(ValueError, match="take no more work to read"):
        action(args, tool)


def test_references_go_through_lists_and_escaped_names_and_may_not_turn_in_circles():
    a_is_1 = {"properties": {"a": {"default": 1}}}
    b_is_2 = {"properties": {"b": {"default": 2}}}
    definitions = {"list": [a_is_1, b_is_2], "~/": a_is_1}
    properties = {
        "x": {"$ref": "#/$defs/list/1"},
        "y": {"$ref": "#/$defs/~0~1"},
        # these lead nowhere
        "z": {"$ref": "#/$defs/list/2"},
        "w": {"$ref": "#/$defs/list/b/c"},
    }
    tool = {"name": "f", "parameters": {"$defs": definitions, "properties": properties}}
    filled = args_of({"x": {}, "y": {}, "z": {}, "w": {}}, tool)
    assert filled == {"x": {"b": 2}, "y": {"a": 1}, "z": {}, "w": {}}

    to_node = {"$ref": "#/$defs/node"}
    node = {"type": "object", "properties": {"unit": {"default": 1}, "next": to_node}}
    tool = {"name": "f", "parameters": {"properties": {"x": to_node}, "$defs": {"node": node}}}
    filled = call(x={"next": {"unit": 1}, "unit": 1})
    assert same(call(x={"next": {}}), filled, tool)

    to_itself = {"$ref": "#/properties/x"}
    for stated in (
        to_itself,
        {"$ref": "#/nowhere"},
        {"anyOf": [to_itself, to_itself]},
        {"oneOf": [to_itself, to_itself]},
        {"allOf": [to_itself, to_itself]},
    ):
        assert same(call(x=1), call(x=1.0), schema(x=stated))


@pytest.mark.parametrize(("listed", "given"), [([1], 1), (1, [1]), ({"a": 1}, 1), (True, 1)])
def test_what_a_schema_lists_is_compared_by_kind(listed, given):
    assert not fits({"enum": [listed]}, given)
    assert fits({"enum": [listed]}, listed)


TO_OWN = {"$ref": "#/$defs/own"}


@pytest.mark.parametrize("first", [TO_OWN, {"items": TO_OWN}, {"type": "null"}])
def test_a_default_beside_alternatives_is_filled_in_where_a_reference_leads_to_it(first):
    own = {"default": "EUR", "anyOf": [first, {"type": "string"}]}
    for stated in (TO_OWN, {"allOf": [TO_OWN]}):
        parameters = {"properties": {"unit": stated}, "$defs": {"own": own}}
        assert args_of({}, tool_f(**parameters)) == EUR


def test_several_defaults_are_refused_where_they_are_needed():
    first = {"x": {"default": 1}}
    second = {"x": {"default": 2}}
    tool = tool_f(properties=first, allOf=[{"properties": second}])
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
    parameters = {"$defs": {"text": {"type": "string"}}, "properties": {"x": stated, "y": {}}}
    fixing = {"name": "f", "parameters": parameters}
    written = action({"x": "A", "y": "A"}, fixing)
    assert written == '[{"args":{"x":"A","y":"A"},"exact":["x"],"name":"f"}]'

    parameters["anyOf"] = [{"required": ["x"]}, {"required": ["z"]}]
    assert '"exact":["x"]' in action({"x": "A"}, fixing)


NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
WIPE = {
    "type": "object",
    "properties": {**NOTE["properties"], "dry_run": {"type": "boolean", "default": False}},
}


NOTE_OR_WIPE = {"anyOf": [NOTE, WIPE]}
WIPE_OR_NOTE = {"anyOf": [WIPE, NOTE]}
TO_NOTE = {"$ref": "#/$defs/note"}
TO_WIPE = {"$ref": "#/$defs/wipe"}


@pytest.mark.parametrize(
    "stated",
    [
        NOTE_OR_WIPE,
        {"oneOf": [TO_NOTE, {"allOf": [TO_WIPE]}]},
        {"allOf": [WIPE_OR_NOTE]},
        {"properties": {"in": WIPE_OR_NOTE}},
        {"additionalProperties": WIPE_OR_NOTE},
    ],
)
def test_what_fits_several_alternatives_differently_or_none_is_refused(stated):
    definitions = {"note": NOTE, "wipe": WIPE}
    tool = {"name": "f", "parameters": {"$defs": definitions, "properties": {"x": stated}}}
    is_inside = "properties" in stated or "additionalProperties" in stated

    def action_with(value):
        return action({"x": {"in": value} if is_inside else value}, tool)

    several = "fits several alternatives in the tool's schema differently"
    with pytest.raises(ValueError, match=several):
        action_with({"text": "a"})
    # a server that takes the first alternative drops what it does not name
    with pytest.raises(ValueError, match=several):
        action_with({"text": "a", "loud": True})

    for neither in ({"text": 1}, "a"):
        with pytest.raises(ValueError, match="fits none of the alternatives"):
            action_with(neither)

    dry = action_with({"text": "a", "dry_run": True})
    wet = action_with({"text": "a", "dry_run": False})
    assert dry != wet


def test_an_alternative_that_is_closed_or_misfits_beside_a_doubt_is_ruled_out():
    mail = {"properties": {"to": {}, "dry_run": {"default": True}}}
    sms = {"properties": {"to": {}, "number": {}, "dry_run": {"default": False}}}
    closed_mail = {**mail, "additionalProperties": False}
    text = {"x": {"to": "Ann", "number": 5}}
    with pytest.raises(ValueError, match="several alternatives"):
        action(text, schema(x={"anyOf": [mail, sms]}))
    assert '"dry_run":false' in action(text, schema(x={"anyOf": [closed_mail, sms]}))

    with_number = {"allOf": [closed_mail, {"properties": {"number": {}}}]}
    or_nothing = {"anyOf": [with_number, {"type": "null"}]}
    assert '"dry_run":true' in action(text, schema(x=or_nothing))

    # in a doubt about "x", "kind" says which alternative it is
    doubtful = {"type": "object", "properties": {"x": NOTE_OR_WIPE, "kind": {"const": "a"}}}
    clear = {"type": "object", "properties": {"x": {"type": "object"}, "kind": {"const": "b"}}}
    tool = schema(y={"anyOf": [doubtful, clear]})
    assert action({"y": {"x": {"text": "t"}, "kind": "b"}}, tool)
    with pytest.raises(ValueError, match="several alternatives"):
        action({"y": {"x": {"text": "t"}, "kind": "a"}}, tool)


@pytest.mark.parametrize(
    ("one", "other", "given"),
    [(1, True, 1.0), ("a", "b", "a"), ([1, {"k": 1}], [True], [1, {"k": 1.0}])],
)
def test_alternatives_are_told_apart_by_their_constants_and_their_types(one, other, given):
    of_one = {"properties": {"k": {"const": one}, "d": {"default": 1}}}
    of_other = {"properties": {"k": {"const": other}, "d": {"default": 2}}}
    either = schema(x={"oneOf": [of_one, of_other]})
    assert '"d":1' in action({"x": {"k": given}}, either)
    assert '"d":2' in action({"x": {"k": other}}, either)


def test_what_takes_too_much_work_to_read_is_refused():
    links = {f"d{place}": {"$ref": f"#/$defs/d{place + 1}"} for place in range(66)}
    chain = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": links}
    with pytest.raises(ValueError, match="from reference to reference at most"):
        action({"x": 1}, tool_f(**chain))

    constants = {"anyOf": [{"const": {"k": k}} for k in range(300)]}
    many_items = [{"k": k % 300} for k in range(3_000)]
    with pytest.raises(ValueError, match="take no more work to read"):
        action({"x": many_items}, schema(x={"type": "array", "items": constants}))

    lengths = {"anyOf": [{"type": "string", "minLength": n} for n in range(300)]}
    with pytest.raises(ValueError, match="take no more work to read"):
        action({"x": "a" * 50_000}, schema(x=lengths))


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
    parameters = json.dumps({"properties": {"unit": UNIT}})
    tool = json.loads(json.dumps(where).replace("0", parameters))
    named = tool.get("function") or tool
    named["name"] = "f"
    assert same(call(), call(unit="EUR"), tool)


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
    eur = {"properties": {"unit": {"default": "EUR"}}}
    usd = {"properties": {"unit": {"default": "USD"}}}
    by_place = schema(x={"prefixItems": [eur], "items": usd})
    assert args_of({"x": [{}, {}]}, by_place) == {"x": [{"unit": "EUR"}, {"unit": "USD"}]}

    n_is_1 = {"properties": {"n": {"default": 1}}}
    both = schema(x={"allOf": [{"items": eur}, {"items": n_is_1}]})
    assert args_of({"x": [{}]}, both) == {"x": [{"unit": "EUR", "n": 1}]}


# what is refused


def test_size_depth_and_work_are_bounded():
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}):
        deep = 1
        for _ in range(31):
            deep = wrap(deep)
        assert canonical_action([call(x=deep)])
        too_deep = wrap(deep)
        with pytest.raises(ValueError, match="nested at most 32 levels"):
            canonical_action([call(x=too_deep)])

    n_around = len(canonical_action([call(x="")]))
    longest = "x" * (MAX_CHARS - n_around)
    line = canonical_action([call(x=longest)])
    assert len(line) == MAX_CHARS
    assert read_action(line) == [call(x=longest)]
    assert read_action(line + " ") is None
    assert read_action('[{"args":{},"name":"f"},{"name":"f"}]') is None
    with pytest.raises(ValueError, match="at most 100000 characters; got 100001"):
        canonical_action([call(x=longest + "x")])

    many = call(**{f"a{place}": place for place in range(12_000)})
    free = tool_f(properties={"a": {"default": 1}}, additionalProperties={})
    for tools in ([], [free]):
        with pytest.raises(ValueError, match="at most 100000 characters"):
            canonical_action([many], tools=tools)

    long_default = {"properties": {"y": {"default": "a" * 1000}}}
    many_fields = {"properties": {f"y{i}": {} for i in range(500)}}
    for stated, value in (
        ({"items": long_default}, [{}] * 1000),
        ({"allOf": [{}] * 100}, [0] * 40_000),
        ({"items": many_fields}, [{}] * 300),
    ):
        with pytest.raises(ValueError, match="at most 100000 characters, and take no more work"):
            action({"x": value}, schema(x=stated))

    # what a parser reads is looked at for texts that the schema fixes
    of_many_ways = {"additionalProperties": {"anyOf": [{"minLength": n} for n in range(400)]}}
    many = call(**{f"a{place}": "x" for place in range(400)})
    with pytest.raises(ValueError, match="take no more work"):
        write_action([many], {"f": of_many_ways}, {"f": dict})


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
    x_is_1 = '[{"args":{"x":1},"name":"f"}]'
    assert action({"x": 1}, schema("f", x={"enum": [1, 2]})) == x_is_1

    # of which alternative is not known
    either = [{"type": "integer", "default": 2}, {"type": "null"}]
    tool = schema("f", x={"default": 1, "anyOf": either}, y={"anyOf": either}, z=True)
    assert action({}, tool) == x_is_1

    number_or_nothing = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    text_or_nothing = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    of_number = {"properties": {"x": number_or_nothing}}
    of_text = {"properties": {"x": text_or_nothing}}
    assert action({"y": {"x": "a"}}, schema("f", y={"anyOf": [of_number, of_text]}))

    both = schema("f", x={"enum": ["a"]}, y={"enum": ["b"]})
    assert same(call(x="a", y="b"), call(y="b", x="a"), both)  # in whatever order

    # the tool refuses it, or not
    closed = schema("f", x={"properties": {}, "additionalProperties": False})
    assert action({"x": {"y": 1}}, closed) == '[{"args":{"x":{"y":1}},"name":"f"}]'

    assert read_action('[{"args":{},"name":"f","name":"g"}]') is None

    text = {"type": "string"}
    number = {"type": "number"}
    part = {
        "properties": {"x": text},
        "then": {"properties": {"x": number}},
        "additionalProperties": number,
    }
    assert schemas_of("x", [part]) == [text]

    model = SimpleNamespace(model_json_schema=lambda: closed)
    of_schema = SimpleNamespace(name="f", tool_call_schema=closed)
    of_model = SimpleNamespace(name="f", tool_call_schema=model)
    without_schema = {"name": "f", "parameters": None}
    read = read_tools([of_schema, of_model, without_schema])
    assert read == [("f", closed), ("f", closed), ("f", {})]
