import numpy as np
import pytest
from scipy.optimize import minimize

from coe_agents.evaluation.calibration.learned import fit_trust, to_folds


def test_the_trust_is_the_minimum_of_its_loss():
    generator = np.random.default_rng(0)
    questions = [generator.dirichlet(np.ones(3), size=2) for _ in range(200)]
    correct = [
        np.eye(3)[row[0].argmax() if generator.random() < 0.8 else row[1].argmax()]
        for row in questions
    ]

    def loss(slopes, penalty=2.0):
        scores = [slopes @ rows for rows in questions]
        likelihood = sum(
            s @ right - np.log(np.exp(s).sum()) for s, right in zip(scores, correct, strict=True)
        )
        return penalty / 2 * ((slopes - slopes.mean()) ** 2).sum() - likelihood

    weights = fit_trust(questions, correct, penalty=2.0)
    best = minimize(
        loss, [1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    ).x
    assert best.min() > 0.0
    assert weights[0] == pytest.approx(best[0] / best.sum(), abs=1e-4)
    assert weights.sum() == pytest.approx(1.0)


def test_trust_is_never_negative_and_equal_without_evidence():
    # the second agent is always wrong, also where the first hesitates
    contrary = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])] * 300
    assert fit_trust(contrary, [np.array([1.0, 0.0])] * 600, penalty=0.1).tolist() == [1.0, 0.0]
    assert fit_trust([np.ones((2, 1))] * 9, [np.ones(1)] * 9).tolist() == [0.5, 0.5]
    assert fit_trust([np.eye(2)] * 9, [np.zeros(2)] * 9).tolist() == [0.5, 0.5]


def test_folds_hold_equal_shares_and_depend_on_ids_alone():
    identifiers = [f"q{i}" for i in range(100)]
    wrong = np.array([i % 4 == 0 for i in range(100)], dtype=float)
    fold = to_folds(identifiers, wrong)
    assert np.bincount(fold).tolist() == [20] * 5
    assert np.bincount(fold, wrong).tolist() == [5.0] * 5
    assert to_folds(identifiers[::-1], wrong[::-1])[::-1].tolist() == fold.tolist()
