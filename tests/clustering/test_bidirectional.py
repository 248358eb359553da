import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import (
    ENTAILMENT_LABELS,
    BidirectionalEntailment,
    Clusterer,
    EntailmentModel,
)
from coe_agents.testing import TableEntailment

LETTERS = "abcdefg"
verdicts = st.sampled_from(ENTAILMENT_LABELS)
tables = st.fixed_dictionaries(dict.fromkeys(itertools.product(LETTERS, LETTERS), verdicts))
responses = st.lists(st.sampled_from(LETTERS), max_size=12)


def table_model(table):
    return TableEntailment(lambda premise, hypothesis: table[premise[-1], hypothesis[-1]])


def matches(table, one, other, *, strict):
    if one == other:
        return True
    both = (table[one, other], table[other, one])
    if strict:
        return both == ("entailment", "entailment")
    return "contradiction" not in both and both != ("neutral", "neutral")


def one_at_a_time(texts, table, *, strict):
    """The greedy reference: each response goes into the first cluster whose first member it matches."""
    representatives, labels = [], []
    for text in texts:
        for label, representative in enumerate(representatives):
            if matches(table, representative, text, strict=strict):
                labels.append(label)
                break
        else:
            labels.append(len(representatives))
            representatives.append(text)
    return labels


def pairs_of_one_at_a_time(texts, table, *, strict):
    """What the greedy reference must ask: each earlier cluster up to the first match, backward where still possible."""
    possible = {"entailment"} if strict else {"entailment", "neutral"}
    representatives, asked = [], []
    for text in dict.fromkeys(texts):
        for representative in representatives:
            asked.append((representative, text))
            if table[representative, text] in possible:
                asked.append((text, representative))
            if matches(table, representative, text, strict=strict):
                break
        else:
            representatives.append(text)
    return asked


@given(tables, responses, st.booleans())
def test_only_pairs_are_asked_that_the_first_match_depends_on(table, texts, strict):
    model = table_model(table)
    BidirectionalEntailment(model, strict=strict).cluster([texts], [""])
    assert sorted(model.pairs) == sorted(pairs_of_one_at_a_time(texts, table, strict=strict))


@given(tables, st.lists(responses, max_size=4), st.booleans())
def test_the_partition_is_that_of_comparing_one_pair_at_a_time(table, batch, strict):
    clusterer = BidirectionalEntailment(table_model(table), strict=strict)
    expected = [one_at_a_time(texts, table, strict=strict) for texts in batch]
    assert clusterer.cluster(batch, ["Which?"] * len(batch)) == expected


@given(tables, st.lists(responses, max_size=5), st.booleans())
def test_many_questions_give_what_each_gives_alone_in_no_more_requests_than_the_longest(table, batch, strict):
    questions = [f"Question {i}?" for i in range(len(batch))]
    together = table_model(table)
    labels = BidirectionalEntailment(together, strict=strict).cluster(batch, questions)
    alone, calls = [], [0]
    for texts, question in zip(batch, questions, strict=True):
        model = table_model(table)
        alone += BidirectionalEntailment(model, strict=strict).cluster([texts], [question])
        calls.append(len(model.calls))
    assert labels == alone
    assert len(together.calls) <= 2 * max((len(set(row)) for row in labels), default=0)
    assert len(together.calls) <= max(2 * calls_alone for calls_alone in calls)


@given(tables, responses)
def test_duplicates_are_never_asked_about_and_do_not_change_the_partition(table, texts):
    model = table_model(table)
    labels = BidirectionalEntailment(model).cluster([texts + texts], [""])[0]
    distinct = list(dict.fromkeys(texts))
    once = dict(zip(distinct, BidirectionalEntailment(table_model(table)).cluster([distinct], [""])[0], strict=True))
    assert labels == [once[text] for text in texts + texts]
    assert len(set(model.pairs)) == len(model.pairs)
    assert all(premise != hypothesis for premise, hypothesis in model.pairs)


@given(st.permutations("aabbccdde"))
def test_an_equivalence_gives_its_classes_in_any_order(texts):
    table = {
        pair: "entailment" if set(pair) <= set("abc") else "neutral" for pair in itertools.product("abcde", repeat=2)
    }
    labels = BidirectionalEntailment(table_model(table)).cluster([texts], [""])[0]
    classes = ["abc" if text in "abc" else text for text in texts]
    assert labels == [list(dict.fromkeys(classes)).index(each) for each in classes]


def test_a_response_joins_the_first_matching_cluster_only():
    # b matches both a and c, which do not match each other: it belongs to a, the older one, whatever comes between.
    matching = {frozenset("ab"), frozenset("bc")}
    model = TableEntailment(lambda one, other: "entailment" if frozenset((one, other)) in matching else "neutral")
    assert BidirectionalEntailment(model).cluster([["a", "c", "b"]], [""]) == [[0, 1, 0]]


def test_one_direction_is_not_enough():
    model = TableEntailment(lambda premise, _: "entailment" if premise == "Paris, France" else "neutral")
    assert BidirectionalEntailment(model).cluster([["Paris, France", "Paris"]], [""]) == [[0, 1]]
    assert BidirectionalEntailment(model, strict=False).cluster([["Paris, France", "Paris"]], [""]) == [[0, 0]]


@pytest.mark.parametrize(
    ("forward", "backward", "strict", "lenient"),
    [
        ("entailment", "entailment", True, True),
        ("entailment", "neutral", False, True),
        ("neutral", "entailment", False, True),
        ("neutral", "neutral", False, False),
        ("entailment", "contradiction", False, False),
        ("contradiction", "entailment", False, False),
        ("neutral", "contradiction", False, False),
    ],
)
def test_the_two_rules(forward, backward, strict, lenient):
    for rule, expected in ((True, strict), (False, lenient)):
        model = TableEntailment(lambda premise, _: forward if premise == "a" else backward)
        labels = BidirectionalEntailment(model, strict=rule).cluster([["a", "b"]], [""])
        assert labels == [[0, 0 if expected else 1]]


def test_the_reverse_direction_is_asked_only_where_the_forward_one_leaves_a_match_possible():
    def verdict(premise, hypothesis):
        return {"b": "entailment", "c": "neutral", "d": "contradiction"}.get(hypothesis, "entailment")

    strict = TableEntailment(verdict)
    BidirectionalEntailment(strict).cluster([["a", "b", "c", "d"]], [""])
    assert strict.calls[:2] == [[("a", "b"), ("a", "c"), ("a", "d")], [("b", "a")]]
    lenient = TableEntailment(verdict)
    BidirectionalEntailment(lenient, strict=False).cluster([["a", "b", "c", "d"]], [""])
    assert lenient.calls[:2] == [[("a", "b"), ("a", "c"), ("a", "d")], [("b", "a"), ("c", "a")]]


def test_the_waves_of_all_questions_share_requests(same_start):
    batch = [["aa", "ab", "ba", "bb"], ["xa", "xb"], ["pa"], []]
    labels = BidirectionalEntailment(same_start).cluster(batch, ["", "", "", ""])
    assert labels == [[0, 0, 1, 1], [0, 0], [0], []]
    # First wave: aa against three and xa against one, then back for ab and xb; second: ba against bb, and back.
    assert [len(call) for call in same_start.calls] == [4, 2, 1, 1]


def test_the_question_stands_before_both_sides_and_white_space_is_trivial(same_start):
    texts = ["Paris", " Paris\n", "It  is\nPlaice"]
    labels = BidirectionalEntailment(same_start).cluster([texts], [" Which city? "])
    assert labels == [[0, 0, 0]]
    assert same_start.calls[0] == [("Which city? Paris", "Which city? It is Plaice")]


def test_variants_are_one_and_the_first_of_them_is_shown_to_the_model(same_start):
    texts = ["The Louvre", "louvre!", "Notre Dame", "the louvre."]
    assert BidirectionalEntailment(same_start).cluster([texts], [""]) == [[0, 0, 1, 0]]
    assert same_start.pairs == [("The Louvre", "Notre Dame")]
    apart = TableEntailment({}, default="contradiction")
    assert BidirectionalEntailment(apart, merge_variants=False).cluster([texts], [""]) == [[0, 1, 2, 3]]
    assert len(apart.pairs) == 6


def test_without_a_question_the_response_stands_alone(same_start):
    BidirectionalEntailment(same_start).cluster([["Paris", "Rome"]], [""])
    assert same_start.calls == [[("Paris", "Rome")]]


def test_nothing_is_asked_where_nothing_is_to_compare(same_start):
    assert BidirectionalEntailment(same_start).cluster([], []) == []
    assert BidirectionalEntailment(same_start).cluster([["a", "a "], []], ["", ""]) == [[0, 0], []]
    assert same_start.calls == []


def test_a_tie_speaks_against_a_match():
    class Torn:
        def predict(self, pairs):
            return np.tile([0.0, 0.5, 0.5], (len(pairs), 1))

    assert BidirectionalEntailment(Torn()).cluster([["a", "b"]], [""]) == [[0, 1]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones((2, 3)) / 3, r"of Wrong must return numbers of shape \(1, 3\); got shape \(2, 3\)"),
        (np.ones((1, 2)) / 2, r"got shape \(1, 2\)"),
        ([[0.5, 0.5, np.nan]], r"row 0 of Wrong is \[0.5, 0.5, nan\]"),
        ([[np.inf, 0.0, 0.0]], "row 0 of Wrong"),
        ([[0.5, 0.5, 0.5]], "softmax"),
        ([[-0.5, 0.5, 1.0]], "row 0 of Wrong"),
        ([["a", "b", "c"]], "of Wrong must return rows of numbers, all of one length; got list"),
        (None, "of Wrong must return"),
    ],
)
def test_what_is_no_distribution_over_the_labels_is_refused(returned, message):
    class Wrong:
        def predict(self, pairs):
            return returned

    with pytest.raises(ValueError, match=message):
        BidirectionalEntailment(Wrong()).cluster([["a", "b"]], [""])


def test_float16_rounding_is_within_the_tolerance():
    class Half:
        def predict(self, pairs):
            return np.tile(np.array([0.1, 0.2, 0.7], dtype=np.float16), (len(pairs), 1))

    assert BidirectionalEntailment(Half()).cluster([["a", "b"]], [""]) == [[0, 0]]


def test_arguments_are_checked(same_start):
    with pytest.raises(TypeError, match="predict"):
        BidirectionalEntailment("microsoft/deberta-large-mnli")
    with pytest.raises(ValueError, match="equally long; got 1 and 2"):
        BidirectionalEntailment(same_start).cluster([["a"]], ["", ""])
    with pytest.raises(TypeError, match=r"responses\[0\]"):
        BidirectionalEntailment(same_start).cluster(["abc"], [""])


def test_labels_are_python_integers_and_the_protocols_are_met(same_start):
    clusterer = BidirectionalEntailment(same_start)
    assert {type(label) for label in clusterer.cluster([["a", "b", "ab"]], [""])[0]} == {int}
    assert isinstance(clusterer, Clusterer)
    assert isinstance(same_start, EntailmentModel)


def test_another_judge_judges_by_the_same_rules():
    table = TableEntailment({})
    former = BidirectionalEntailment(TableEntailment({}), strict=False, merge_variants=False)
    clusterer = former.with_model(table)
    assert (clusterer.model, clusterer.strict, clusterer.merge_variants) == (table, False, False)
    assert not BidirectionalEntailment(table, strict=False).with_model(table).strict
