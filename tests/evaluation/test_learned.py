import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, Samples, iter_statistics, judged
from coe_agents.evaluation.learned import LEAN, agent_weights, cluster_verdicts, cross_fitted, fit_gate, folds
from coe_agents.evaluation.metrics import auroc
from coe_agents.policy.gate import FEATURES, features
from tests.evaluation.invented import group, row, write


@pytest.fixture
def rows(tmp_path):
    with Samples([write(tmp_path / "s.jsonl", group(150))]) as questions:
        found = judged(questions, clusterer=NormalizedMatch())
    return [each.measurement for each in found], np.array([each.correct for each in found])


def test_features_by_hand(tmp_path):
    # a: x, x, y; b: x: the mean is (5/6, 1/6)
    samples = [row("q", "a", i, text) for i, text in enumerate("xxy")] + [row("q", "b", 0, "x")]
    with Samples([write(tmp_path / "f.jsonl", samples)]) as questions:
        (one,) = judged(questions, clusterer=NormalizedMatch())
    m = one.measurement
    expected = [m.coe, m.aleatoric, m.epistemic, -math.log(5 / 6), 4 / 6, math.log(2), 1.0, 2 / 3]
    assert features(m, ["b", "a"]) == pytest.approx(np.array(expected))
    with pytest.raises(KeyError):
        features(m, ["c"])


def test_the_gate_in_numpy_equals_scikit_learn(rows):
    measurements, correct = rows
    gate = fit_gate(measurements, correct, strength=0.5)
    x = np.array([features(m, "abc") for m in measurements])
    stretched = StandardScaler().fit_transform(x)
    stretched[:, FEATURES.index("coe")] *= LEAN
    pipeline = make_pipeline(LogisticRegression(C=0.5, max_iter=1000)).fit(stretched, ~correct)
    own = [gate.uncertainty(m) for m in measurements]
    np.testing.assert_allclose(own, pipeline.predict_proba(stretched)[:, 1], atol=1e-6)
    assert auroc(correct=correct, uncertainty=own) > 0.7  # higher = less sure


def test_cross_fitting_never_scores_what_it_was_fitted_on(rows):
    measurements, correct = rows
    held_out = cross_fitted(measurements, correct, n_folds=5)
    for outside, inside in folds(correct, n_folds=5, seed=0):
        assert sorted([*outside, *inside]) == list(range(150))
        gate = fit_gate([measurements[i] for i in outside], correct[outside])
        assert [gate.uncertainty(measurements[i]) for i in inside] == held_out[inside].tolist()
        assert np.mean(correct[inside]) == pytest.approx(correct.mean(), abs=0.04)


def test_noise_cannot_be_learned(rows):
    measurements, _ = rows
    noise = np.random.default_rng(0).random(150) < 0.5
    assert 0.3 < auroc(correct=noise, uncertainty=cross_fitted(measurements, noise)) < 0.7


def test_questions_that_lack_an_agent_are_left_out(tmp_path):
    samples = [each for each in group(40) if (each["id"], each["agent"]) != ("q00000", "b")]
    with Samples([write(tmp_path / "s.jsonl", samples)]) as questions:
        found = judged(questions, clusterer=NormalizedMatch())
    whole, lacking = found[1:], found[:1]
    gates = [fit_gate([e.measurement for e in each], [e.correct for e in each]) for each in (whole, lacking + whole)]
    assert gates[0] == gates[1]


def test_one_class_cannot_be_learned(rows):
    measurements, _ = rows
    with pytest.raises(
        ValueError, match=r"right and wrong answers to questions with all 3 agents; 150 such .* 0 of them"
    ):
        fit_gate(measurements, [True] * 150)


def test_agent_weights_by_hand():
    # accuracies (9 + 1) / 12 and (7 + 1) / 12 of ten questions: odds 5 and 2
    own = np.ones((10, 2), dtype=bool)
    own[0, 0] = own[:3, 1] = False
    expected = np.log([5, 2]) / np.log(10)
    assert agent_weights(own) == pytest.approx(expected)
    assert agent_weights(~own).tolist() == [0.5, 0.5]  # none is right more often than not


def test_every_cluster_has_its_own_verdict(tmp_path):
    samples = [row("q", "a", i, text, references=["rome"]) for i, text in enumerate(["Paris", "Paris", "Rome"])]
    with Samples([write(tmp_path / "s.jsonl", samples)]) as questions:
        (one,) = iter_statistics(questions, clusterer=NormalizedMatch())
    assert cluster_verdicts(one, CRITERIA["reference"]).tolist() == [False, True]
