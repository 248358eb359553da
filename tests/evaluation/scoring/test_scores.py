import gc
import json
import math
import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import join_ties
from coe_agents.evaluation.scoring.correctness import CRITERIA
from coe_agents.evaluation.scoring.scores import ScoringSetup, best_single_model, report, to_scores
from tests.evaluation.invented import group, row, score, write

LOG2 = math.log(2)


def scored(path, rows, **options):
    with Samples([write(path / "s.jsonl", rows)]) as samples:
        return score(samples, clusterer=NormalizedMatch(), **options)


def test_nothing_is_dropped_silently(tmp_path):
    rows = [
        row("right", "a", references=["Paris"]),
        row("right", "b", references=["Paris"]),
        row("wrong", "a", references=["Rome"]),
        row("wrong", "b", text="", references=["Rome"], error="ServerError: 500"),
        row("unjudged", "a"),
        row("dead", "a", text="", error="ServerError: 500"),
        row("dead", "b", text="", error="ServerError: 500"),
    ]
    found = scored(tmp_path, rows)
    assert (found.n_questions, found.n_unanswered, found.n_unjudged) == (4, 1, 1)
    assert found.correct.tolist() == [True, False]  # by id
    assert {
        name: (a.n_questions, a.n_responses, a.n_failures) for name, a in found.agents.items()
    } == {"a": (3, 3, 1), "b": (1, 1, 2)}
    absent = "regular_entropy p_false best_single_model"
    assert found.absent == dict.fromkeys(absent.split(), 2)
    assert not found.absent.keys() & found.values.keys()


def test_an_agent_of_the_run_that_the_samples_do_not_hold_is_not_listed():
    setup = ScoringSetup(NormalizedMatch(), CRITERIA["reference"], max_tokens={"absent": 20})
    assert to_scores([], setup).agents == {}


def test_the_trusted_vote_share_by_hand(tmp_path):
    def question(identifier, *texts, right):
        said = zip("abc", texts, strict=True)
        return [row(identifier, name, text=text, references=[right]) for name, text in said]

    # by question, a and b agree by 1/2, 1, 0 (a refusal agrees with nothing) and 1, since c did not answer the last;
    # c by 0, 1 and 0
    rows = [
        *question("1", "Paris", "Paris", "Lyon", right="Paris"),
        *question("2", "4", "4", "4", right="4"),
        *question("3", "I don't know.", "I don't know.", "I don't know.", right="5"),
        *question("4", "Rome", "Rome", "", right="Rome")[:2],
    ]
    found = scored(tmp_path, rows)
    trust = np.array([2.5 / 4, 2.5 / 4, 1 / 3]) ** 3
    expected = [1 - trust[:2].sum() / trust.sum(), 0.0, 0.0, 0.0]
    assert found.values["trusted_vote_share"] == pytest.approx(expected)
    # without two agents that ever agree there are no weights
    apart = scored(tmp_path, question("1", "Paris", "Lyon", "Nice", right="Paris"))
    assert apart.absent["trusted_vote_share"] == 1


def test_the_report_is_the_contract(tmp_path):
    found = scored(tmp_path, group(40, p_false=0.25))
    figures = json.loads(json.dumps(report(found, n_resamples=50), allow_nan=False))
    assert list(figures) == [
        "n_questions",
        "n_scored",
        "accuracy",
        "correctness",
        "scores",
        "n_ties",
        "details",
    ]
    assert figures["n_scored"] == 40
    assert figures["accuracy"] == found.correct.mean()
    assert figures["correctness"] == "reference_or_label"
    assert {"coe", "coe_js", "vote_share", "regular_entropy", "p_false"} <= figures["scores"].keys()
    for name, each in figures["scores"].items():
        value, low, high = each["auroc"]
        assert value == auroc(correct=found.correct, uncertainty=found.values[name])
        assert low <= value <= high
        assert list(each["rejection_accuracy"]) == ["0.8", "0.9", "0.95", "1.0"]
        assert each["rejection_accuracy"]["1.0"][0] == pytest.approx(figures["accuracy"])
        assert each["aurc"][0] == pytest.approx(1 - each["aurac"][0])
    assert "auroc_difference" not in figures["scores"]["coe"]


@pytest.mark.slow
def test_memory_holds_no_question(tmp_path):
    def peak(n_questions):
        path = write(tmp_path / "s.jsonl", group(n_questions, n_samples=2, remark="long " * 100))
        gc.collect()
        tracemalloc.start()
        with Samples([path]) as samples:
            report(score(samples, clusterer=NormalizedMatch()), n_resamples=3)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, more = peak(300), peak(900)
    assert (more - few) / 600 < 1000  # bytes; a question's samples are ten times as large


def test_scores_within_a_billionth_tie_whatever_grid_they_straddle():
    # neighbours on both sides of a point of any grid of ten digits, and a chain of three
    values = [
        1.00000000005,
        1.00000000005 - 2e-16,
        2.0,
        2.0 + 6e-10,
        2.0 + 12e-10,
        3.0,
        3.0 + 1.1e-9,
    ]
    joined = join_ties(values)
    assert len(set(joined[:2])) == len(set(joined[2:5])) == 1
    assert joined[5] != joined[6]
    order = [6, 1, 4, 0, 3, 5, 2]
    np.testing.assert_array_equal(join_ties(np.array(values)[order]), joined[order])


def test_ties_are_counted_and_count_by_their_share(tmp_path):
    rows = [
        *(row("mixed", "a", i, "Rome", correct=i < 3) for i in range(4)),  # 3 of 4 labels say right
        row("tied", "a", text="Paris", references=["Paris"]),
        row("tied", "b", text="Lyon", references=["Paris"]),
        row("unjudged", "a", text="Paris"),
        row("unjudged", "b", text="Lyon"),
        row("whole", "a", text="Paris", references=["Paris"]),
    ]
    found = scored(tmp_path, rows)
    figures = report(found, n_resamples=5)
    assert figures["n_ties"] == 1  # of those scored
    assert figures["accuracy"] == 0.75
    # as weights: (0.25 + 0.5) wrong, (0.75 + 0.5 + 1) right; "tied" alone is unsure, with CoE log 2
    expected = roc_auc_score(
        [True, True, True, False, False, False],
        [0, LOG2, 0, 0, LOG2, 0],
        sample_weight=[0.25, 0.5, 0, 0.75, 0.5, 1],
    )
    assert figures["scores"]["coe"]["auroc"][0] == pytest.approx(expected)


def test_the_best_single_model_is_chosen_on_the_other_half():
    correct = np.array([True, False, True, False])
    halves = np.array([False, False, True, True])
    # on the first half "a" tells right from wrong, on the second "b" does: each is used where it was not chosen
    entropies = {"a": np.array([0.0, 1.0, 0.9, 0.2]), "b": np.array([0.8, 0.3, 0.0, 1.0])}
    np.testing.assert_array_equal(
        best_single_model(entropies, correct, halves), [0.8, 0.3, 0.9, 0.2]
    )
    gaps = entropies | {"c": np.array([np.nan, 1.0, 0.0, 1.0])}
    np.testing.assert_array_equal(best_single_model(gaps, correct, halves), [0.8, 0.3, 0.9, 0.2])
    assert np.isnan(best_single_model(entropies, np.ones(4, dtype=bool), halves)).all()
    # two that tell them apart equally well are averaged, under whatever names
    tied = {"a": np.array([0.0, 1.0, 0.1, 0.3]), "b": np.array([0.2, 0.6, 0.5, 0.9])}
    for names in ("ab", "ba"):
        renamed = dict(zip(names, tied.values(), strict=True))
        np.testing.assert_allclose(
            best_single_model(renamed, correct, halves), [0.1, 0.8, 0.3, 0.6]
        )
    assert np.isnan(best_single_model({"c": gaps["c"]}, correct, halves)).all()
