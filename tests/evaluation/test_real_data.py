"""What must show on the saved responses of real models; `COE_DATA` names the folder that holds them."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import report, score

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
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
