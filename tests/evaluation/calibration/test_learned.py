from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from coe_agents.evaluation.calibration.learned import fit_gate, fit_trust, to_folds
from coe_agents.evaluation.metrics import auroc
from coe_agents.policy.learned_gates import distributions_of, gate_features
from tests.evaluation.invented import group


@pytest.fixture(scope="module")
def known(rows):
    return rows(group(150))


def fit(rows, **options):
    return fit_gate([each.measurement for each in rows], [each.verdicts for each in rows], **options)


def test_the_trust_is_the_minimum_of_its_loss():
    generator = np.random.default_rng(0)
    questions = [generator.dirichlet(np.ones(3), size=2) for _ in range(200)]
    correct = [np.eye(3)[row[0].argmax() if generator.random() < 0.8 else row[1].argmax()] for row in questions]

    def loss(slopes, penalty=2.0):
        scores = [slopes @ rows for rows in questions]
        likelihood = sum(s @ right - np.log(np.exp(s).sum()) for s, right in zip(scores, correct, strict=True))
        return penalty / 2 * ((slopes - slopes.mean()) ** 2).sum() - likelihood

    weights = fit_trust(questions, correct, penalty=2.0)
    best = minimize(loss, [1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    assert best.min() > 0.0
    assert weights[0] == pytest.approx(best[0] / best.sum(), abs=1e-4)
    assert weights.sum() == pytest.approx(1.0)


def test_trust_is_never_negative_and_equal_without_evidence():
    # the second agent is always wrong, also where the first hesitates
    contrary = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])] * 300
    assert fit_trust(contrary, [np.array([1.0, 0.0])] * 600, penalty=0.1).tolist() == [1.0, 0.0]
    assert fit_trust([np.ones((2, 1))] * 9, [np.ones(1)] * 9).tolist() == [0.5, 0.5]
    assert fit_trust([np.eye(2)] * 9, [np.zeros(2)] * 9).tolist() == [0.5, 0.5]


def test_the_gate_equals_scikit_learn(known):
    gate = fit(known, trust=False)
    assert gate.weights == pytest.approx([1 / 3] * 3)
    x = np.array([gate_features(distributions_of(each.measurement, "abc"), np.full(3, 1 / 3))[0] for each in known])
    wrong = np.array([1 - each.verdicts[each.measurement.leading] for each in known])
    untied = np.array([not each.measurement.tied for each in known])
    gate = fit([each for each in known if not each.measurement.tied], trust=False)
    free = LogisticRegression(C=1e6).fit(x[untied, None], wrong[untied])
    own = np.array([gate.uncertainty(each.measurement) for each in known])[untied]
    assert gate.deviations == (0.0, 0.0, 0.0)  # equal agents: the block does not enter
    np.testing.assert_allclose(own, free.predict_proba(x[untied, None])[:, 1], atol=1e-3)
    assert auroc(correct=wrong[untied] == 0, uncertainty=own) > 0.7  # higher = less sure


def test_folds_hold_equal_shares_and_depend_on_ids_alone():
    identifiers = [f"q{i}" for i in range(100)]
    wrong = np.array([i % 4 == 0 for i in range(100)], dtype=float)
    fold = to_folds(identifiers, wrong)
    assert np.bincount(fold).tolist() == [20] * 5
    assert np.bincount(fold, wrong).tolist() == [5.0] * 5
    assert to_folds(identifiers[::-1], wrong[::-1])[::-1].tolist() == fold.tolist()
    assert to_folds(identifiers, wrong, salt="other").tolist() != fold.tolist()


def test_one_class_cannot_be_learned(known):
    right = [replace(each, verdicts=(1.0,) * len(each.verdicts)) for each in known]
    message = "two right and two wrong answers by all 3 agents; got 150 .* 0 of them wrong"
    with pytest.raises(ValueError, match=message):
        fit(right)


def with_confidence(rows, *, tells, seed):
    """The rows as if agents stated a confidence that tells how right they are, or nothing; one of five is silent."""
    generator = np.random.default_rng(seed)

    def stated(row, agent):
        right = dict(zip(row.measurement.representatives, row.verdicts, strict=True))
        mean = sum(p * right[text] for text, p in agent.distribution.items()) * tells
        sure = float(np.clip(generator.normal(0.6 + 0.3 * mean, 0.1), 0.0, 1.0))
        return replace(agent, confidence=sure if generator.random() < 0.8 else None)

    def measured(row):
        agents = {name: stated(row, agent) for name, agent in row.measurement.agents.items()}
        return replace(row.measurement, agents=agents)

    return [replace(row, measurement=measured(row)) for row in rows]


def test_confidence_enters_where_it_tells_something_and_changes_nothing_where_not(rows):
    known = [each for each in rows(group(300, n_samples=1, logprob=None)) if not each.measurement.tied]
    plain = fit(known)
    assert plain.stated == plain.token == ()
    assert fit(with_confidence(known, tells=False, seed=0)) == plain
    gate = fit(with_confidence(known, tells=True, seed=0))
    assert len(gate.stated) == len(gate.no_stated) == 3
    assert max(gate.stated) < 0.0  # the surer of the answer, the less probably it is wrong
    new = with_confidence(known, tells=True, seed=1)
    right = [each.verdicts[each.measurement.leading] for each in new]
    own, other = ([one.uncertainty(each.measurement) for each in new] for one in (gate, plain))
    assert auroc(correct=right, uncertainty=own) > auroc(correct=right, uncertainty=other) + 0.05
