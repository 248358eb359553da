import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.clustering import BidirectionalEntailment
from coe_agents.clustering.protocols import ENTAILMENT_LABELS
from coe_agents.testing.doubles import TableEntailment

LETTERS = "abcde"
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
    representatives = []
    labels = []
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
    representatives = []
    asked = []
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
def test_the_partition_is_that_of_comparing_one_pair_at_a_time_and_no_other_pair_is_asked(
    table, texts, strict
):
    model = table_model(table)
    (labels,) = BidirectionalEntailment(model, strict=strict).cluster([texts], [""])
    assert labels == one_at_a_time(texts, table, strict=strict)
    assert sorted(model.pairs) == sorted(pairs_of_one_at_a_time(texts, table, strict=strict))


@given(tables, st.lists(responses, max_size=5), st.booleans())
def test_many_questions_give_what_each_gives_alone_in_no_more_requests_than_the_longest(
    table, batch, strict
):
    questions = [f"Question {i}?" for i in range(len(batch))]
    together = table_model(table)
    labels = BidirectionalEntailment(together, strict=strict).cluster(batch, questions)
    alone = []
    calls = [0]
    for texts, question in zip(batch, questions, strict=True):
        model = table_model(table)
        alone += BidirectionalEntailment(model, strict=strict).cluster([texts], [question])
        calls.append(len(model.calls))
    assert labels == alone
    assert len(together.calls) <= 2 * max((len(set(row)) for row in labels), default=0)
    assert len(together.calls) <= max(2 * calls_alone for calls_alone in calls)


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
    assert BidirectionalEntailment(apart, merge_variants=False).cluster([texts], [""]) == [
        [0, 1, 2, 3]
    ]
    assert len(apart.pairs) == 6


def test_a_threshold_replaces_the_most_probable_label_and_a_tie_speaks_against_a_match():
    class Sure:
        def predict(self, pairs):
            return np.tile([0.1, 0.3, 0.6], (len(pairs), 1))

    assert BidirectionalEntailment(Sure(), threshold=0.6).cluster([["a", "b"]], [""]) == [[0, 0]]
    assert BidirectionalEntailment(Sure(), threshold=0.7).cluster([["a", "b"]], [""]) == [[0, 1]]

    class Torn:
        def predict(self, pairs):
            return np.tile([0.0, 0.5, 0.5], (len(pairs), 1))

    assert BidirectionalEntailment(Torn()).cluster([["a", "b"]], [""]) == [[0, 1]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            np.ones((2, 3)) / 3,
            r"of Wrong must return numbers of shape \(1, 3\); got shape \(2, 3\)",
        ),
        ([[0.5, 0.5, np.nan]], r"row 0 of Wrong is \[0.5, 0.5, nan\]"),
        ([[0.5, 0.5, 0.5]], "softmax"),
        ([["a", "b", "c"]], "of Wrong must return rows of numbers, all of one length; got list"),
    ],
)
def test_what_is_no_distribution_over_the_labels_is_refused(returned, message):
    class Wrong:
        def predict(self, pairs):
            return returned

    with pytest.raises(ValueError, match=message):
        BidirectionalEntailment(Wrong()).cluster([["a", "b"]], [""])


def test_arguments_are_checked(same_start):
    with pytest.raises(TypeError, match="predict"):
        BidirectionalEntailment("microsoft/deberta-large-mnli")
    with pytest.raises(ValueError, match="above 0 and at most 1; got 0"):
        BidirectionalEntailment(same_start, threshold=0)
    with pytest.raises(ValueError, match="strict=False"):
        BidirectionalEntailment(same_start, strict=False, threshold=0.5)
    with pytest.raises(ValueError, match="equally long; got 1 and 2"):
        BidirectionalEntailment(same_start).cluster([["a"]], ["", ""])
    with pytest.raises(TypeError, match=r"responses\[0\]"):
        BidirectionalEntailment(same_start).cluster(["abc"], [""])
