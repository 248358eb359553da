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
    return [canonical([{"name": "pay", "args": {"to": to, "sum": amount}}]) for amount in sums]


def labels(texts, question="", **options):
    return ActionMatch(**options).cluster([texts], [question])[0]


def test_equal_actions_share_a_cluster_and_under_a_tolerance_the_first_in_canonical_order_represents_it():
    texts = [*pay(5, 6, 5), canonical([]), "I would rather not.", canonical([])]
    assert labels(texts) == [0, 1, 0, 2, 3, 2]
    # 1.0 = 1.1 and 1.1 = 1.2, but 1.0 != 1.2; "1" comes first, so 1.2 is alone, in whatever order they come
    texts = pay(1.2, 1.1, 1.0)
    found = labels(texts, compare={"pay.sum": Within(absolute=0.1)})
    assert found == [0, 1, 1]
    assert labels(texts[::-1], compare={"sum": Within(absolute=0.1)}) == [0, 0, 1]


def test_loosely_texts_are_equal_but_for_case_and_white_space_and_numbers_to_9_decimals():
    tool = {"name": "pay", "parameters": {"properties": {"unit": {"enum": ["mg", "Mg"]}}}}
    pairs = [({"to": "New  York"}, {"to": "new york"}), ({"to": ["STRASSE"]}, {"to": ["straße"]})]
    pairs += [
        ({"to": {"a": "B"}}, {"to": {"a": "b"}}),
        ({"sum": 0.1 + 0.2}, {"sum": 0.3}),
        ({"sum": 4.9e-10}, {"sum": 0}),
        ({"to": "a,b"}, {"to": "a b"}),
        ({"to": ["a"]}, {"to": ["b"]}),
        ({"to": {"a": "b"}}, {"to": {"a": "c"}}),
        ({"sum": 0.3}, {"sum": 0.4}),
    ]
    for place, own in enumerate([*pairs, ({"unit": "mg"}, {"unit": "Mg"})]):
        texts = [canonical([{"name": "pay", "args": args}], tools=[tool]) for args in own]
        assert labels(texts) == [0, 1]
        assert labels(texts, text="loose") == ([0, 0] if place < 5 else [0, 1])


@pytest.mark.parametrize("rule", [Text(), Meaning(NormalizedMatch()), AnyOrder()])
def test_no_rule_loosens_what_the_schema_fixes_nor_a_parsed_value(rule):
    fixed = {"enum": ["mg", "Mg"]}
    loop = {
        "$defs": {"n": {"properties": {"unit": fixed, "next": {"$ref": "#/$defs/n"}}}},
        "$ref": "#/$defs/n",
    }
    for parameters in ({"properties": {"unit": fixed}}, loop):
        tool = {"name": "f", "parameters": parameters}
        texts = [
            canonical([{"name": "f", "args": {"unit": unit}}], tools=[tool])
            for unit in ("mg", "Mg")
        ]
        assert labels(texts, compare={"unit": rule}) == [0, 1]
        assert labels(texts, compare={"unit": Ignore()}) == [0, 0]
    parsed = [canonical([{"name": "f", "args": {"x": {"$b.Unit": name}}}]) for name in ("mg", "Mg")]
    assert labels(parsed, compare={"x": rule}) == [0, 1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 2**32))
def test_the_order_of_responses_changes_no_partition(sums, seed):
    texts = pay(*(amount / 10 for amount in sums))
    places = random.Random(seed).sample(range(len(texts)), len(texts))
    clusterer = {"compare": {"sum": Within(absolute=0.25)}}
    one = labels(texts, **clusterer)
    other = labels([texts[i] for i in places], **clusterer)
    together = [[one[i] == one[j] for j in places] for i in places]
    assert together == [[a == b for b in other] for a in other]


@pytest.mark.parametrize(
    ("rule", "values", "found"),
    [
        (Within(relative=0.1), [100, 111, 112], [0, 0, 1]),
        (Within(absolute=1), [True, 1, "1", None, {"x": 1}], [0, 1, 2, 3, 4]),
        (Within(relative=0.1), [4.9e-10, 0, 1e-12], [0, 1, 2]),
        (Within(absolute=0.01), [5, 5.01, 1e9, 1e9 + 0.01], [0, 0, 1, 1]),
        (Within(absolute=0.7), [0.1, 0.8], [0, 0]),
        (Within(absolute=0.01), ["a", 5, 5.01], [0, 1, 1]),
        (
            Within(relative=0.1),
            [{"$decimal": "500E-2"}, {"$decimal": "555E-2"}, {"$decimal": "556E-2"}],
            [0, 0, 1],
        ),
        (
            Within(absolute=0.01),
            [{"$decimal": "5E0"}, {"$decimal": "5010000000000001E-15"}],
            [0, 1],
        ),
        (
            Text(),
            ["Ann  Smith", "\tann\u00a0smith\n", "ANN SMITH...", "annsmith", 3, "3", "3."],
            [0, 0, 0, 1, 2, 3, 3],
        ),
        (
            Text(),
            ['Say (or "ask") 5%.', 'say (or "ask") 5%', "a/..", "a/.", "a/", "rm *.", "rm *"],
            [0, 0, 1, 2, 3, 4, 5],
        ),
        (
            Text(),
            ["1.5 mg", "15 mg", "1 5 mg", "-5", "5", "$5", "!", "?", "", ".", ".."],
            [*range(11)],
        ),
        (
            Text(),
            [
                "Maße",
                "Masse",
                "a\u200b",
                "a",
                "\uff15",
                "5",
                "cafe\u0301",
                "caf\xe9",
                "\xc9",
                "\xe9",
            ],
            [*range(9), 8],
        ),
        (Ignore(), [1, "x", None], [0, 0, 0]),
        (AnyOrder(), [[1, 2], [2, 1], [1, 1, 2], "12"], [0, 0, 1, 2]),
        (AnyOrder(), [[{"a": 1}, None], [None, {"a": 1}], [None, {"a": 2}]], [0, 0, 1]),
        (Exact(), [[1, 2], [2, 1]], [0, 1]),
        (Meaning(NormalizedMatch()), ["the bank", "bank!", "river", 3, 3.5], [0, 0, 1, 2, 3]),
        (Meaning(NormalizedMatch()), ["The Bank", "the bank"], [0, 0]),
    ],
)
def test_rules(rule, values, found):
    texts = [canonical([{"name": "f", "args": {"x": value}}]) for value in values]
    assert labels(texts, compare={"f.x": rule}) == found


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_texts_that_differ_in_a_sign_do_not_run_for_each_other(one, other):
    texts = [canonical([{"name": "f", "args": {"x": value}}]) for value in (one, other)]
    assert labels(texts, compare={"x": Text()}) == [0, 1]


ONE = {"x": 1}


@pytest.mark.parametrize(
    ("actions", "compare", "found"),
    [
        # an argument that is left out equals a given one only if it is ignored
        ([[("f", {})], [("f", ONE)], [("f", {"x": 2})]], {"x": Within(absolute=5)}, [0, 1, 1]),
        ([[("f", {})], [("f", ONE)], [("f", {"x": 2})]], {"x": Ignore()}, [0, 0, 0]),
        # the rule of a tool comes before that of all
        (
            [[(name, {"x": x})] for name in "fg" for x in (1, 2)],
            {"x": Ignore(), "g.x": Exact()},
            [0, 0, 1, 2],
        ),
        # parallel calls are paired by tool
        (
            [
                [("a", ONE), ("b", {"x": 1.01})],
                [("b", ONE), ("a", ONE)],
                [("a", ONE)],
                [("a", ONE)] * 2,
            ],
            {"x": Within(absolute=0.05)},
            [0, 0, 1, 2],
        ),
    ],
)
def test_actions(actions, compare, found):
    texts = [canonical([{"name": name, "args": args} for name, args in calls]) for calls in actions]
    assert labels(texts, compare=compare) == found


@pytest.mark.parametrize("rule", [Within(absolute=0.5), Within(relative=0.1)])
def test_numbers_that_no_double_holds_are_compared(rule):
    huge = 10**400
    found = rule.compare([huge, huge + huge // 10**6, 5, 1.5, 1.7e308, -(10**308)], "")
    assert found[0].tolist() == [True, rule.relative > 0, False, False, False, False]
    assert (found == found.T).all()


def test_a_decimal_is_close_to_decimals_alone_and_a_huge_one_takes_no_time():
    decimals = [{"$decimal": text} for text in ("5E0", "501E-2", "1E999999999", "5", "0")]
    within = Within(absolute=0.01, relative=0.001).compare([5, *decimals], "").tolist()
    assert [[i for i, is_equal in enumerate(row) if is_equal] for row in within] == [
        [0],
        [1, 2],
        [1, 2],
        [3],
        [4],
        [5],
    ]


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
    nothing = {"name": "f", "parameters": {"properties": ["x"]}}  # says nothing of its arguments
    assert ActionMatch([nothing], compare={}).cluster([["[]", "[]"]], [""]) == [[0, 0]]
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

    with pytest.raises(
        ValueError, match=r'"compare" of Wrong must return booleans of shape \(2, 2\); got'
    ):
        labels(pay(1, 2), compare={"sum": Wrong()})


def test_an_argument_counts_that_the_schema_does_not_declare_and_what_was_compared_is_known():
    given = [dict.fromkeys(["sum", *"abcde"], value) for value in (5, 6)]
    texts = [canonical([{"name": "pay", "args": args}]) for args in given]
    match = ActionMatch([PAY], compare={"pay.sum": Within(absolute=1)})
    assert match.cluster([texts], [""]) == [[0, 1]]
    compared = match.compare_arguments(match.align(texts)[0], "")
    assert [argument.name for argument in compared] == ["sum", *"abcde"]
    known = _Comparisons()
    equal = np.array([[True, False, True], [False, True, False], [True, False, True]])
    known.keep(("f", "x", ""), ["1", "2", "3"], equal)
    assert known.find(("f", "x", ""), ["3", "1"]).all()
    assert known.find(("f", "x", ""), ["3", "4"]) is None
