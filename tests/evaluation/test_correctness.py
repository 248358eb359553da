import pytest

from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch
from coe_agents.evaluation import CRITERIA, Criterion, Prediction, Rule, SameMeaning
from coe_agents.evaluation.correctness import judge, token_f1
from coe_agents.testing import TableEntailment


def verdict(name, answer, references=(), verdicts=()):
    return judge([Prediction("Which?", answer, tuple(references), tuple(verdicts))], CRITERIA[name])[0]


@pytest.mark.parametrize(
    ("name", "answer", "references", "verdicts", "expected"),
    [
        ("reference", "The Beatles!", ["Stones", "beatles"], [], True),  # an alias, normalised
        ("reference", "Beatles of Liverpool", ["beatles"], [], False),
        ("reference", "Beatles", [], [True], None),
        ("label", "x", ["y"], [None, False, True], True),
        ("label", "x", ["x"], [None, False], False),
        ("label", "x", ["x"], [None], None),
        ("reference_or_label", "x", ["x"], [False], True),  # the judge knew one alias only
        ("reference_or_label", "x", ["y"], [True], True),
        ("reference_or_label", "x", ["y"], [], False),
        ("reference_or_label", "x", [], [False], False),
        ("reference_or_label", "x", [], [None], None),
        ("f1", "the city of Paris", ["Paris"], [], True),  # 2 * 1 / (3 + 1) = 0.5
        ("f1", "big city of Paris", ["Paris"], [], False),  # 2 * 1 / (4 + 1) = 0.4
        # ROUGE-L: the longest common sequence is "cat": F = 2 (1/5) (1/1) / (6/5) = 1/3, and 2 (1/6) / (7/6) = 2/7
        ("rouge_l", "one cat in our house", ["cat"], [], True),
        ("rouge_l", "one cat in our big house", ["cat"], [], False),
        ("rouge_l", "cat", [], [], None),
    ],
)
def test_criteria_by_hand(name, answer, references, verdicts, expected):
    assert verdict(name, answer, references, verdicts) is expected


@pytest.mark.parametrize("answer", ["I don't know.", ""])
def test_declining_is_never_right(answer):
    assert verdict("reference_or_label", answer, [answer], [True]) is False
    assert verdict("label", answer, [], [None]) is None


def test_same_meaning_asks_an_entailment_model_with_the_question():
    model = TableEntailment(
        lambda premise, hypothesis: "entailment" if {premise, hypothesis} == {"Q? NYC", "Q? New York"} else "neutral"
    )
    criterion = SameMeaning(BidirectionalEntailment(model))
    predictions = [
        Prediction("Q?", "NYC", ("Boston", "New York")),
        Prediction("Q?", "NYC", ("Boston",)),
        Prediction("Q?", "NYC"),
    ]
    assert judge(predictions, criterion) == [True, False, None]
    assert judge([], criterion) == []


def test_a_callable_can_judge():
    criterion = Rule("judge", lambda prediction: prediction.answer.startswith("P"))
    assert isinstance(criterion, Criterion)
    assert isinstance(SameMeaning(NormalizedMatch()), Criterion)
    assert judge([Prediction("?", "Paris"), Prediction("?", "Rome")], criterion) == [True, False]


def test_a_judge_that_loses_one_is_refused():
    class Forgetful:
        name = "forgetful"

        def judge(self, predictions):
            return [True]

    with pytest.raises(ValueError, match=r"one verdict per prediction; forgetful returned 1 for 2"):
        judge([Prediction("?", "a"), Prediction("?", "b")], Forgetful())


def test_token_f1_counts_repetitions_and_survives_nothing():
    assert token_f1("no no", "no") == pytest.approx(2 / 3)
    assert token_f1("", "") == 0.0
