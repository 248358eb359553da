from types import SimpleNamespace

import pytest

from coe_agents.clustering import BidirectionalEntailment
from coe_agents.evaluation.scoring.correctness import (
    CRITERIA,
    Criterion,
    Prediction,
    Rule,
    SameMeaning,
    judge,
)
from coe_agents.testing.doubles import TableEntailment


def verdict(name, answer, references=(), verdicts=()):
    return judge(
        [Prediction("Which?", answer, tuple(references), tuple(verdicts))], CRITERIA[name]
    )[0]


def test_criteria_by_hand():
    for name, answer, references, verdicts, expected in (
        ("reference", "The Beatles!", ["Stones", "beatles"], [], True),  # an alias, normalised
        ("reference", "Beatles of Liverpool", ["beatles"], [], False),
        ("reference", "Beatles", [], [True], None),
        (
            "label",
            "x",
            ["y"],
            [None, False, True],
            0.5,
        ),  # mixed labels: the share of them that says right
        ("reference_or_label", "x", ["x"], [False], True),  # the judge knew one alias only
        ("reference_or_label", "x", ["y"], [True, False], 0.5),
        ("reference_or_label", "x", [], [None], None),
        (
            "reference_or_label",
            "I don't know.",
            ["I don't know."],
            [True],
            0,
        ),  # to decline is never right
        ("reference_or_label", "", [""], [True], 0),
        ("label", "I don't know.", [], [None], None),
        ("reference_or_any_label", "x", ["y"], [False, None, True], True),  # one yes is enough
        ("reference_or_any_label", "x", ["y"], [False, None], False),
        ("contains", "It is the city of Paris, France.", ["Lyon", "paris"], [], True),
        ("contains", "It is not Paris.", ["Paris"], [], True),  # a negation is not read
        ("contains", "Parisian food", ["Paris"], [], False),
        ("contains", "It is 13.5 or -5.", ["3.5", "5"], [], False),
        ("contains", "New York City", ["york city"], [], True),
        ("contains", "City of New York", ["york city"], [], False),
        ("contains", "法国的首都是巴黎。", ["巴黎"], [], True),
        ("contains", "有15个。", ["5"], [], False),
        ("contains", "수도는 파리입니다.", ["파리"], [], True),
        ("contains", "x", [""], [], False),
        ("contains", "x", [], [True], None),
        ("f1", "the city of Paris", ["Paris"], [], True),  # 2 * 1 / (3 + 1) = 0.5
        ("f1", "big city of Paris", ["Paris"], [], False),  # 2 * 1 / (4 + 1) = 0.4
    ):
        assert verdict(name, answer, references, verdicts) == expected


def test_same_meaning_asks_an_entailment_model_with_the_question():
    model = TableEntailment(
        lambda premise, hypothesis: (
            "entailment" if {premise, hypothesis} == {"Q? NYC", "Q? New York"} else "neutral"
        )
    )
    criterion = SameMeaning(BidirectionalEntailment(model))
    predictions = [
        Prediction("Q?", "NYC", references)
        for references in (("Boston", "New York"), ("Boston",), ())
    ]
    assert judge(predictions, criterion) == [True, False, None]
    assert judge([], criterion) == []


def test_a_callable_can_judge_and_what_it_returns_is_checked():
    criterion = Rule("judge", lambda prediction: prediction.answer.startswith("P"))
    assert isinstance(criterion, Criterion)
    assert judge([Prediction("?", "Paris"), Prediction("?", "Rome")], criterion) == [True, False]
    for said in (1.5, -0.1, float("nan")):
        with pytest.raises(
            ValueError, match=r"\"judge\" of strange must be a number in \[0, 1\]; got"
        ):
            judge([Prediction("?", "a")], Rule("strange", lambda _, said=said: said))
    with pytest.raises(
        ValueError, match=r"of forgetful must return one verdict for each of 2; got 1"
    ):
        judge(
            [Prediction("?", "a")] * 2,
            SimpleNamespace(name="forgetful", judge=lambda predictions: [True]),
        )
