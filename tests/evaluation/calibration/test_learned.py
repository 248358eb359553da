import numpy as np
import pytest
from scipy.optimize import minimize

from coe_agents.evaluation.calibration.learned import fit_trust, to_folds

N_QUESTIONS = 200


PENALTY = 2.0


def invent_shares():
    """Two agents' shares of three clusters, and which is right: mostly the first agent's favourite."""
    generator = np.random.default_rng(0)
    questions = [generator.dirichlet(np.ones(3), size=2) for _ in range(N_QUESTIONS)]
    correct = []
    for first, second in questions:
        trusted = first if generator.random() < 0.8 else second
        correct.append(np.eye(3)[trusted.argmax()])
    return questions, correct


def test_the_trust_is_the_minimum_of_its_loss():
    questions, correct = invent_shares()

    def loss(slopes):
        log_likelihood = 0.0
        for rows, right in zip(questions, correct, strict=True):
            scores = slopes @ rows
            log_likelihood += scores @ right - np.log(np.exp(scores).sum())
        deviations = slopes - slopes.mean()
        return PENALTY / 2 * (deviations**2).sum() - log_likelihood

    weights = fit_trust(questions, correct, penalty=PENALTY)

    closely = {"xatol": 1e-6, "fatol": 1e-9}
    best = minimize(loss, [1.0, 1.0], method="Nelder-Mead", options=closely).x
    assert best.min() > 0.0
    assert weights[0] == pytest.approx(best[0] / best.sum(), abs=1e-4)
    assert weights.sum() == pytest.approx(1.0)


def test_trust_is_never_negative_and_equal_without_evidence():
    # the second agent is always wrong, also where the first hesitates
    first_is_certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    first_hesitates = np.array([[0.5, 0.5], [0.0, 1.0]])
    contrary = [first_is_certain, first_hesitates] * 300
    first_cluster = [np.array([1.0, 0.0])] * 600
    assert fit_trust(contrary, first_cluster, penalty=0.1).tolist() == [1.0, 0.0]

    one_cluster = fit_trust([np.ones((2, 1))] * 9, [np.ones(1)] * 9)
    assert one_cluster.tolist() == [0.5, 0.5]

    none_is_right = fit_trust([np.eye(2)] * 9, [np.zeros(2)] * 9)
    assert none_is_right.tolist() == [0.5, 0.5]


def test_folds_hold_equal_shares_and_depend_on_ids_alone():
    identifiers = [f"q{i}" for i in range(100)]
    wrong = np.array([i % 4 == 0 for i in range(100)], dtype=float)

    fold = to_folds(identifiers, wrong)
    assert np.bincount(fold).tolist() == [20] * 5
    assert np.bincount(fold, wrong).tolist() == [5.0] * 5

    of_reversed = to_folds(identifiers[::-1], wrong[::-1])
    assert of_reversed[::-1].tolist() == fold.tolist()
