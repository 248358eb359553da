import json

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import CRITERIA, Samples
from coe_agents.experiments.cascade import Stages, calibrate_cascade, figures_of, measure_stages
from coe_agents.experiments.replay import ReplayedPolicy, load_saved, replay
from coe_agents.policy import CascadePolicy

NAMES = (("small",), ("large",))


def stages(uncertainty, correct, price=(1.0, 11.0)):
    n = len(uncertainty)
    return Stages(NAMES, np.array(uncertainty), np.array(correct), np.tile(price, (n, 1)))


FOUR = stages(
    [[0.0, 0.0], [0.0, 0.0], [0.9, 0.1], [0.9, 0.9]],
    [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]],
)


def test_figures_by_hand():
    # the first two are answered at once; the third by the second stage; the fourth pays for both and is withheld
    found = figures_of(FOUR, [0.5, 0.5])
    assert (found.coverage, found.risk, found.price) == (0.75, 0.0, (1 + 1 + 11 + 11) / 4)
    # without the last stage no one pays for it
    found = figures_of(FOUR, [0.5, None])
    assert (found.coverage, found.risk, found.price) == (0.5, 0.0, 1.0)
    found = figures_of(FOUR, [None, 1.0])
    assert (found.coverage, found.risk, found.price) == (1.0, 0.25, 11.0)
    assert np.isnan(figures_of(FOUR, [None, None]).risk)


def test_the_cheapest_thresholds_that_answer_as_much_as_asking_everyone():
    found = calibrate_cascade(FOUR, risk=0.1)
    assert found.figures.coverage == 0.75
    assert found.figures.price == 6.0
    assert found.thresholds[0] is not None
    policy = found.to_policy()
    assert isinstance(policy, CascadePolicy)
    assert policy.stages == NAMES


def test_less_coverage_is_cheaper_and_an_impossible_risk_has_no_thresholds():
    assert calibrate_cascade(FOUR, risk=0.1, coverage=0.5).figures.price == 1.0
    wrong = stages([[0.0, 0.0]] * 3, [[0.0, 0.0]] * 3)
    assert calibrate_cascade(wrong, risk=0.1) is None
    with pytest.raises(ValueError, match=r"A risk of 0\.1 is usual"):
        calibrate_cascade(FOUR, risk=2)


def test_a_stage_that_never_answers_joins_the_next_one():
    useless = stages([[0.0, 0.0], [0.0, 0.9]], [[0.0, 1.0], [0.0, 0.0]])
    found = calibrate_cascade(useless, risk=0.0)
    assert found.thresholds[0] is None
    assert found.to_policy().stages == (("small", "large"),)


def test_agents_that_are_never_asked_are_in_no_stage(saved):
    found = measure_stages(saved, NAMES, CRITERIA["reference"])
    cascade = calibrate_cascade(found, risk=0.0, coverage=0.1)
    assert cascade.thresholds[1] is None
    assert cascade.to_policy().stages == (("small",),)
    asked = ReplayedPolicy(name="c", policy=cascade.to_policy(), n_samples={"small": 3, "large": 3}, max_rounds=2)
    outcomes = replay(saved, asked, CRITERIA["reference"]).outcomes.values()
    assert np.mean([each.tokens for each in outcomes]) == cascade.figures.price == 15.0


def test_random_cascades_are_never_dearer_than_asking_everyone_at_the_same_risk():
    generator = np.random.default_rng(0)
    for _ in range(20):
        uncertainty = generator.random((60, 2))
        made = stages(uncertainty, (generator.random((60, 2)) > uncertainty).astype(float))
        found = calibrate_cascade(made, risk=0.3, n_thresholds=8)
        assert found is None or (found.figures.risk <= 0.3 and found.figures.price <= 11.0)


@pytest.fixture
def saved(tmp_path):
    said = {
        "0": {"small": ["Paris"] * 3, "large": ["Paris"] * 3},
        "1": {"small": ["Lyon", "Paris", "Rome"], "large": ["Paris"] * 3},
        "2": {"small": ["Lyon", "Oslo", "Rome"], "large": ["Bonn", "Bern", "Kiel"]},
    }
    rows = [
        {"id": number, "agent": name, "index": i, "text": text, "references": ["Paris"], "n_tokens": 5}
        for number, agents in said.items()
        for name, texts in agents.items()
        for i, text in enumerate(texts)
    ]
    path = tmp_path / "s.samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Samples([path]) as samples:
        return load_saved(samples, NormalizedMatch())


def test_a_replayed_cascade_agrees_with_its_figures(saved):
    found = measure_stages(saved, NAMES, CRITERIA["reference"])
    assert found.price.tolist() == [[15.0, 30.0]] * 3
    assert found.correct[1].tolist()[1] == 1.0
    policy = CascadePolicy(NAMES, [0.5, 1.0])
    figures = figures_of(found, policy.cascade_thresholds)
    asked = ReplayedPolicy(name="c", policy=policy, n_samples={"small": 3, "large": 3}, max_rounds=2)
    outcomes = list(replay(saved, asked, CRITERIA["reference"]).outcomes.values())
    assert [each.is_answered for each in outcomes] == [True, True, False]
    assert [each.n_rounds for each in outcomes] == [1, 2, 2]
    assert [each.n_requests for each in outcomes] == [1, 2, 2]
    assert figures.coverage == pytest.approx(2 / 3)
    assert figures.price == np.mean([each.tokens for each in outcomes])
    with pytest.raises(ValueError, match="Name other agents"):
        measure_stages(saved, [["huge"]], CRITERIA["reference"])
