import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.actions import ActionMatch, AnyOrder, Exact, Ignore, Meaning, Text, Within
from coe_agents.actions import canonical_action as canonical
from coe_agents.actions.match import _Comparisons
from coe_agents.clustering import NormalizedMatch

PAY = {
    "name": "pay",
    "parameters": {"properties": {"to": {"type": "string"}, "sum": {"type": "number"}}},
}

UNLIKE = [
    ("- 500", "500"),
    ("x != 5", "x = 5"),
    ("!x", "x"),
    ("grade A-", "grade A"),
    ("O-", "O"),
    ("~x", "x"),
    ("don't", "dont"),
    ("#5", "5"),
    ("rm -rf a", "rm rf a"),
    ("a,b", "a b"),
    ("Hi?", "Hi!"),
    ("a_b", "a b"),
]


def pay(*sums, to="Ann"):
    """Payments to one person, a text for each."""
    return [canonical([{"name": "pay", "args": {"to": to, "sum": amount}}]) for amount in sums]


def of_f(value, argument="x", tools=None):
    """A call of the tool "f" with one argument."""
    return canonical([{"name": "f", "args": {argument: value}}], tools=tools)


def labels(texts, question="", **options):
    [labels_of_texts] = ActionMatch(**options).cluster([texts], [question])
    return labels_of_texts


def test_equal_actions_share_a_cluster_and_under_a_tolerance_the_first_in_canonical_order_represents_it():
    nothing = canonical([])
    texts = [*pay(5, 6, 5), nothing, "I would rather not.", nothing]
    assert labels(texts) == [0, 1, 0, 2, 3, 2]

    # 1.0 = 1.1 and 1.1 = 1.2, but 1.0 != 1.2; "1" comes first, so 1.2 is alone, in whatever order they come
    texts = pay(1.2, 1.1, 1.0)
    a_tenth = Within(absolute=0.1)
    assert labels(texts, compare={"pay.sum": a_tenth}) == [0, 1, 1]
    assert labels(texts[::-1], compare={"sum": a_tenth}) == [0, 0, 1]


UNIT_IN_MG = {"unit": {"enum": ["mg", "Mg"]}}
EQUAL_LOOSELY = [
    ({"to": "New  York"}, {"to": "new york"}),
    ({"to": ["STRASSE"]}, {"to": ["straße"]}),
    ({"to": {"a": "B"}}, {"to": {"a": "b"}}),
    ({"sum": 0.1 + 0.2}, {"sum": 0.3}),
    ({"sum": 4.9e-10}, {"sum": 0}),
]
UNEQUAL_LOOSELY = [
    ({"to": "a,b"}, {"to": "a b"}),
    ({"to": ["a"]}, {"to": ["b"]}),
    ({"to": {"a": "b"}}, {"to": {"a": "c"}}),
    ({"sum": 0.3}, {"sum": 0.4}),
    ({"unit": "mg"}, {"unit": "Mg"}),  # as the schema fixes
]


def test_loosely_texts_are_equal_but_for_case_and_white_space_and_numbers_to_9_decimals():
    tool = {"name": "pay", "parameters": {"properties": UNIT_IN_MG}}
    for pair in [*EQUAL_LOOSELY, *UNEQUAL_LOOSELY]:
        texts = [canonical([{"name": "pay", "args": args}], tools=[tool]) for args in pair]
        assert labels(texts) == [0, 1]
        is_equal = pair in EQUAL_LOOSELY
        assert labels(texts, text="loose") == ([0, 0] if is_equal else [0, 1])


NODE = {"properties": {**UNIT_IN_MG, "next": {"$ref": "#/$defs/n"}}}
LOOP = {"$defs": {"n": NODE}, "$ref": "#/$defs/n"}


@pytest.mark.parametrize("rule", [Text(), Meaning(NormalizedMatch()), AnyOrder()])
def test_no_rule_loosens_what_the_schema_fixes_nor_a_parsed_value(rule):
    for parameters in ({"properties": UNIT_IN_MG}, LOOP):
        tool = {"name": "f", "parameters": parameters}
        texts = [of_f(unit, "unit", tools=[tool]) for unit in ("mg", "Mg")]
        assert labels(texts, compare={"unit": rule}) == [0, 1]
        assert labels(texts, compare={"unit": Ignore()}) == [0, 0]

    parsed = [of_f({"$b.Unit": name}) for name in ("mg", "Mg")]
    assert labels(parsed, compare={"x": rule}) == [0, 1]


def pairs_together(labels):
    """For each two places, whether they are in one cluster."""
    return [[one == other for other in labels] for one in labels]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 2**32))
def test_the_order_of_responses_changes_no_partition(sums, seed):
    texts = pay(*(amount / 10 for amount in sums))
    compare = {"sum": Within(absolute=0.25)}
    places = random.Random(seed).sample(range(len(texts)), len(texts))
    moved_texts = [texts[place] for place in places]

    plain = labels(texts, compare=compare)
    moved = labels(moved_texts, compare=compare)
    plain_moved = [plain[place] for place in places]
    assert pairs_together(plain_moved) == pairs_together(moved)


WITHIN_A_TENTH = Within(relative=0.1)
WITHIN_A_CENT = Within(absolute=0.01)
FIVES = [{"$decimal": "500E-2"}, {"$decimal": "555E-2"}, {"$decimal": "556E-2"}]
NEARLY_FIVE = [{"$decimal": "5E0"}, {"$decimal": "5010000000000001E-15"}]
CASE_AND_SPACE = [
    "Ann  Smith",
    "\tann\u00a0smith\n",
    "ANN SMITH...",
    "annsmith",  # no space is not some space
    3,
    "3",
    "3.",
]
MARKS_AT_THE_END = [
    'Say (or "ask") 5%.',
    'say (or "ask") 5%',
    # a dot after a mark may be a path or a pattern
    "a/..",
    "a/.",
    "a/",
    "rm *.",
    "rm *",
]
NUMBERS_AND_MARKS = [
    "1.5 mg",
    "15 mg",
    "1 5 mg",
    "-5",
    "5",
    "$5",
    # marks alone are not stripped
    "!",
    "?",
    "",
    ".",
    "..",
]
LETTERS = [
    "Maße",
    "Masse",
    "a\u200b",  # an invisible character
    "a",
    "\uff15",  # a wide 5
    "5",
    "cafe\u0301",  # an accent of its own
    "caf\xe9",
    "\xc9",  # only the case differs
    "\xe9",
]
LISTS_OF_OBJECTS = [[{"a": 1}, None], [None, {"a": 1}], [None, {"a": 2}]]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        pytest.param(WITHIN_A_TENTH, [100, 111, 112], [0, 0, 1], id="share-of-the-larger"),
        pytest.param(
            Within(absolute=1), [True, 1, "1", None, {"x": 1}], [0, 1, 2, 3, 4], id="no-numbers"
        ),
        pytest.param(WITHIN_A_TENTH, [4.9e-10, 0, 1e-12], [0, 1, 2], id="share-of-nothing"),
        pytest.param(WITHIN_A_CENT, [5, 5.01, 1e9, 1e9 + 0.01], [0, 0, 1, 1], id="small-and-large"),
        pytest.param(Within(absolute=0.7), [0.1, 0.8], [0, 0], id="but-for-rounding"),
        pytest.param(WITHIN_A_CENT, ["a", 5, 5.01], [0, 1, 1], id="beside-a-text"),
        pytest.param(WITHIN_A_TENTH, FIVES, [0, 0, 1], id="decimals"),
        pytest.param(WITHIN_A_CENT, NEARLY_FIVE, [0, 1], id="decimals-exactly"),
        pytest.param(Text(), CASE_AND_SPACE, [0, 0, 0, 1, 2, 3, 3], id="case-and-space"),
        pytest.param(Text(), MARKS_AT_THE_END, [0, 0, 1, 2, 3, 4, 5], id="marks-at-the-end"),
        pytest.param(Text(), NUMBERS_AND_MARKS, [*range(11)], id="numbers-and-marks"),
        pytest.param(Text(), LETTERS, [*range(9), 8], id="letters"),
        pytest.param(Ignore(), [1, "x", None], [0, 0, 0], id="ignored"),
        pytest.param(AnyOrder(), [[1, 2], [2, 1], [1, 1, 2], "12"], [0, 0, 1, 2], id="any-order"),
        pytest.param(AnyOrder(), LISTS_OF_OBJECTS, [0, 0, 1], id="any-order-of-objects"),
        pytest.param(Exact(), [[1, 2], [2, 1]], [0, 1], id="exact"),
        pytest.param(
            Meaning(NormalizedMatch()),
            ["the bank", "bank!", "river", 3, 3.5],
            [0, 0, 1, 2, 3],
            id="meaning",
        ),
        pytest.param(Meaning(NormalizedMatch()), ["The Bank", "the bank"], [0, 0], id="one-word"),
    ],
)
def test_rules(rule, values, expected):
    texts = [of_f(value) for value in values]
    assert labels(texts, compare={"f.x": rule}) == expected


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_texts_that_differ_in_a_sign_do_not_run_for_each_other(one, other):
    texts = [of_f(one), of_f(other)]
    assert labels(texts, compare={"x": Text()}) == [0, 1]


WITHOUT = ("f", {})
WITH_ONE = ("f", {"x": 1})
WITH_TWO = ("f", {"x": 2})
OMITTED = [[WITHOUT], [WITH_ONE], [WITH_TWO]]
OF_TWO_TOOLS = [[WITH_ONE], [WITH_TWO], [("g", {"x": 1})], [("g", {"x": 2})]]
PARALLEL = [
    [("a", {"x": 1}), ("b", {"x": 1.01})],
    [("b", {"x": 1}), ("a", {"x": 1})],
    [("a", {"x": 1})],
    [("a", {"x": 1})] * 2,
]


@pytest.mark.parametrize(
    ("actions", "compare", "expected"),
    [
        # an argument that is left out equals a given one only if it is ignored
        pytest.param(OMITTED, {"x": Within(absolute=5)}, [0, 1, 1], id="omitted"),
        pytest.param(OMITTED, {"x": Ignore()}, [0, 0, 0], id="omitted-and-ignored"),
        pytest.param(
            OF_TWO_TOOLS,
            {"x": Ignore(), "g.x": Exact()},
            [0, 0, 1, 2],
            id="the-rule-of-a-tool-comes-first",
        ),
        pytest.param(
            PARALLEL,
            {"x": Within(absolute=0.05)},
            [0, 0, 1, 2],
            id="parallel-calls-are-paired-by-tool",
        ),
    ],
)
def test_actions(actions, compare, expected):
    texts = []
    for calls in actions:
        texts.append(canonical([{"name": name, "args": args} for name, args in calls]))
    assert labels(texts, compare=compare) == expected


@pytest.mark.parametrize("rule", [Within(absolute=0.5), Within(relative=0.1)])
def test_numbers_that_no_double_holds_are_compared(rule):
    huge = 10**400
    nearly_huge = huge + huge // 10**6
    equal = rule.compare([huge, nearly_huge, 5, 1.5, 1.7e308, -(10**308)], "")
    is_relative = rule.relative > 0
    assert equal[0].tolist() == [True, is_relative, False, False, False, False]
    assert (equal == equal.T).all()


def test_a_decimal_is_close_to_decimals_alone_and_a_huge_one_takes_no_time():
    decimals = [{"$decimal": text} for text in ("5E0", "501E-2", "1E999999999", "5", "0")]
    equal = Within(absolute=0.01, relative=0.001).compare([5, *decimals], "")
    places_equal = [np.flatnonzero(row).tolist() for row in equal]
    assert places_equal == [[0], [1, 2], [1, 2], [3], [4], [5]]


@pytest.mark.parametrize(
    "text",
    ["", "[1]", '[{"name": 3}]', "{}", "[" * 5000, '[{"args":{"x":NaN},"name":"f"}]', "\x00"],
)
def test_a_text_that_is_no_action_equals_itself_alone(text):
    assert labels([text, *pay(5), text, "other"]) == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("compare", "error", "message"),
    [
        ({"pay.sum": Within}, TypeError, "must be an object, not a class; got Within"),
        ({"pay.sum": 0.1}, TypeError, 'must have the method "compare"; got 0.1'),
        ({"pay.amount": Ignore()}, ValueError, "no tool has that. Known: pay.sum, pay.to"),
        ({"send.sum": Ignore()}, ValueError, "no tool has that"),
        ({"amount": Ignore()}, ValueError, "no tool has that"),
    ],
)
def test_rules_that_cannot_apply_are_refused(compare, error, message):
    says_nothing_of_arguments = {"name": "f", "parameters": {"properties": ["x"]}}
    match = ActionMatch([says_nothing_of_arguments], compare={})
    assert match.cluster([["[]", "[]"]], [""]) == [[0, 0]]

    assert ActionMatch([PAY], compare={"pay.sum": Ignore(), "to": Ignore()})
    with pytest.raises(error, match=message):
        ActionMatch([PAY], compare=compare)


def test_it_says_whether_a_rule_may_ask_a_model():
    rules = {"x": Within(absolute=1), "y": Ignore(), "z": AnyOrder(), "w": Text()}
    assert not ActionMatch(compare=rules).may_ask_model
    assert ActionMatch(compare={**rules, "v": Meaning(NormalizedMatch())}).may_ask_model


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf")])
def test_a_tolerance_is_a_finite_number(tolerance):
    with pytest.raises(ValueError, match='"relative" must be a finite number of at least 0; got'):
        Within(relative=tolerance)


@pytest.mark.parametrize("returned", [np.ones(3), np.ones((2, 2)), np.ones(3, dtype=bool)])
def test_a_rule_that_returns_something_else_is_named(returned):
    class Wrong:
        def compare(self, values, question):
            return returned

    message = r'"compare" of Wrong must return booleans of shape \(2, 2\); got'
    with pytest.raises(ValueError, match=message):
        labels(pay(1, 2), compare={"sum": Wrong()})


def test_an_argument_counts_that_the_schema_does_not_declare_and_what_was_compared_is_known():
    names = ["sum", *"abcde"]
    texts = []
    for value in (5, 6):
        args = dict.fromkeys(names, value)
        texts.append(canonical([{"name": "pay", "args": args}]))
    match = ActionMatch([PAY], compare={"pay.sum": Within(absolute=1)})
    assert match.cluster([texts], [""]) == [[0, 1]]

    [aligned] = match.align(texts)
    compared = match.compare_arguments(aligned, "")
    assert [argument.name for argument in compared] == names

    key = ("f", "x", "")
    one_and_three = np.array([[True, False, True], [False, True, False], [True, False, True]])
    known = _Comparisons()
    known.keep(key, ["1", "2", "3"], one_and_three)
    assert known.find(key, ["3", "1"]).all()
    assert known.find(key, ["3", "4"]) is None
