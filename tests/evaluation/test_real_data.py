"""What must show on the saved responses of real models; `COE_DATA` names the folder that holds them."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coe_agents.actions import ActionMatch
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import report, score
from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.metrics.tallies import join_ties

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import actions
from calibn import EQUALS, UNEQUALS, samples
from learned_gate import figures, judged_rows

DATA = os.environ["COE_DATA"]


def evaluate(name, **options):
    with samples(Path(DATA), name, EQUALS) as questions:
        return score(questions, clusterer=NormalizedMatch(), **options)


@pytest.mark.parametrize(("weighting", "expected"), [("frequency", 0.80), ("probability", 0.79)])
def test_coe_tells_wrong_answers_apart(weighting, expected):
    found = evaluate("nq_calibn", weighting=weighting)
    value, low, high = report(found)["scores"]["coe"]["auroc"]
    assert value == pytest.approx(expected, abs=0.01)
    assert low < value < high
    wrong, unsure = np.repeat([True, False], found.correct.size), np.tile(found.values["coe"], 2)
    weights = np.concatenate([1 - found.correct, found.correct])
    assert value == pytest.approx(roc_auc_score(wrong, unsure, sample_weight=weights))


@pytest.mark.parametrize(("models", "least"), [(UNEQUALS, 0.02), (EQUALS, -0.006)])
def test_a_learned_gate_helps_unequal_models(models, least):
    rows = judged_rows(Path(DATA), "nq_calibn", models)
    coe, gate, accuracy = figures(rows, trust=False)
    assert gate - coe >= least
    assert figures(rows, trust=True)[2] >= accuracy - 0.005


@pytest.fixture(scope="module")
def calls():
    found = actions.records(Path(DATA) / "act_bfcl_open.dev.jsonl.gz")
    return actions.Proposals.of([each for each in found if each["kind"] == "call"], actions.FIVE)


def test_support_of_a_call_separates_better_than_coe_of_the_same_group(calls):
    def mean_auroc(score):
        return np.mean([auroc(correct=calls.right[:, i], uncertainty=join_ties(score(i))) for i in calls.places])

    support = mean_auroc(lambda i: actions.support(calls.labels, i, calls.strongest_others(i, 3)))
    coe = mean_auroc(lambda i: actions.group_coe(calls.labels, (i, *calls.strongest_others(i, 3))))
    assert support == pytest.approx(0.8986, abs=0.001)
    assert coe == pytest.approx(0.8666, abs=0.001)
    with actions.samples_of(calls.records, calls.names) as questions:  # and so does the command
        found = score(questions, clusterer=ActionMatch(), proposer="Qwen3-8B")
    own = actions.support(calls.labels, 2, (0, 1, 3, 4))
    np.testing.assert_allclose(found.values["support"], own, atol=1e-9)
    np.testing.assert_array_equal(found.correct, calls.right[:, 2])


def test_a_council_is_right_more_often_than_its_best_member(calls):
    assert actions.plurality(calls, tuple(calls.places)).mean() == pytest.approx(0.886, abs=0.001)
    assert calls.right.mean(axis=0).max() == pytest.approx(0.868, abs=0.001)
