import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coe_agents.evaluation.metrics import (
    accuracy_rejection_curve,
    aurac,
    auroc,
    rejection_accuracy,
    risk_coverage_curve,
)
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS, paper_area

CORRECT = [True, True, False, True, False]
UNSURE = [0.1, 0.2, 0.2, 0.5, 0.9]


def test_auroc_and_the_curve_by_hand_share_ties():
    # pairs (wrong, right): 0.2 against 0.1, 0.2, 0.5: 1 + 1/2 + 0; 0.9 against all: 3; of 6
    assert auroc(correct=CORRECT, uncertainty=UNSURE) == pytest.approx(4.5 / 6)
    assert math.isnan(auroc(correct=[True, True], uncertainty=[1, 2]))  # no wrong one
    assert aurac(correct=[True, True], uncertainty=[1, 2]) == 1.0
    # the two at 0.2 are right by one half each: 1, 1.5/2, 2/3, 3/4, 3/5
    curve = accuracy_rejection_curve(correct=CORRECT, uncertainty=UNSURE)
    np.testing.assert_allclose(curve.coverage, [0.2, 0.4, 0.6, 0.8, 1.0])
    np.testing.assert_allclose(curve.values, [1, 0.75, 2 / 3, 0.75, 0.6])
    np.testing.assert_allclose(
        risk_coverage_curve(correct=CORRECT, uncertainty=UNSURE).values, 1 - curve.values
    )


@pytest.mark.parametrize(
    ("retention", "value"), [(0.2, 1), (0.21, 0.75), (0.4, 0.75), (0.8, 0.75), (1.0, 0.6)]
)
def test_rejection_accuracy_by_hand(retention, value):
    assert rejection_accuracy(
        correct=CORRECT, uncertainty=UNSURE, retention=retention
    ) == pytest.approx(value)


def test_the_papers_area_reproduces_its_table():
    # CoE with two models, 0.593 0.583 0.578 0.575 and 0.174 (all cut off, not rounded), is of 40 answers, 23 right:
    # 0.1 (0.59375 / 2 + 0.58333 + 0.57895 + 0.575 / 2)
    correct = np.zeros(40, dtype=bool)
    correct[:19] = True  # 19 of the first 32: 0.594
    correct[[32, 33, 36, 39]] = True  # 21 of 36: 0.583; 22 of 38: 0.579; 23 of 40: 0.575
    accuracies = [
        rejection_accuracy(correct=correct, uncertainty=np.arange(40), retention=of)
        for of in RETENTIONS
    ]
    assert paper_area(np.array(accuracies)) == pytest.approx(0.174666, abs=1e-6)


def test_refuses():
    for correct, uncertainty, message in (
        ([True, None], [1, 2], r'"correct" must hold True and False'),
        ([1.0, -0.5], [1, 2], r"got -0.5"),
        ([True, False], [1, np.nan], r'"uncertainty" must hold finite numbers only; got nan'),
        ([True, False], [1, 2, 3], r"equally long and not empty; got shapes \(2,\) and \(3,\)"),
        ([], [], "not empty|True and False"),
    ):
        with pytest.raises(ValueError, match=message):
            auroc(correct=correct, uncertainty=uncertainty)
    with pytest.raises(ValueError, match='"retention" must be a number above 0'):
        rejection_accuracy(correct=[True], uncertainty=[0], retention=80)


def shares(seed, n=200, digits=1):
    """Some rows are wholly right or wrong, some half right, some by another share."""
    generator = np.random.default_rng(seed)
    correct = generator.choice([0.0, 1.0, 0.5, 1 / 3, 0.75], n, p=[0.3, 0.4, 0.1, 0.1, 0.1])
    return {
        "correct": correct,
        "uncertainty": np.round(generator.random(n) - 0.4 * correct, digits),
    }


@pytest.mark.parametrize("rows", [*map(shares, range(6)), shares(6, digits=0), shares(7, digits=6)])
def test_the_area_agrees_with_scikit_learn_where_shares_of_right_are_weights(rows):
    # each row twice, as wrong and as right
    wrong, weights = (
        np.repeat([True, False], len(rows["correct"])),
        [1.0 - rows["correct"], rows["correct"]],
    )
    area = roc_auc_score(
        wrong, np.tile(rows["uncertainty"], 2), sample_weight=np.concatenate(weights)
    )
    assert auroc(**rows) == pytest.approx(area, abs=1e-12)


def test_shares_of_right_in_curves_and_areas_by_hand():
    rows = {"correct": [0.5, 1.0, 0.25], "uncertainty": [0.1, 0.2, 0.3]}
    np.testing.assert_allclose(accuracy_rejection_curve(**rows).values, [0.5, 0.75, 1.75 / 3])
    assert aurac(**rows) == pytest.approx((0.5 + 0.75 + 1.75 / 3) / 3)
    assert rejection_accuracy(**rows, retention=0.6) == 0.75
    np.testing.assert_allclose(risk_coverage_curve(**rows).values, [0.5, 0.25, 1.25 / 3])
