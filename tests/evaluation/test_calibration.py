import numpy as np
import pytest
from scipy.stats import binomtest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Judged, Samples, calibrate, judged
from coe_agents.evaluation.calibration import choose_threshold, risk_bound, threshold_grid
from tests.evaluation.invented import group, row, write

NAMED = {"clusterer": "NormalizedMatch", "correctness": "reference"}


@pytest.fixture
def rows(tmp_path):
    def of(samples):
        with Samples([write(tmp_path / "s.jsonl", samples)]) as questions:
            return judged(questions, clusterer=NormalizedMatch())

    return of


@pytest.mark.parametrize(("n_wrong", "n"), [(0, 10), (3, 40), (17, 18)])
def test_the_bound_agrees_with_scipy(n_wrong, n):
    exact = binomtest(n_wrong, n, alternative="less").proportion_ci(0.9, method="exact").high
    assert risk_bound(n_wrong, n, confidence=0.9) == pytest.approx(exact)


def test_the_bound_of_nothing_is_1():
    assert risk_bound(0, 0, confidence=0.9) == risk_bound(4, 4, confidence=0.9) == 1.0


def choice(correct, uncertainty, grid=(0.0, 0.5, 1.0), risk=0.2, confidence=0.9, **options):
    return choose_threshold(
        correct=correct, uncertainty=uncertainty, grid=grid, risk=risk, confidence=confidence, **options
    )


def test_the_choice_by_hand():
    # 40 right at 0, then 40 of which 5 are wrong, then 20 wrong
    correct = [True] * 75 + [False] * 25
    uncertainty = [0.0] * 40 + [0.5] * 40 + [1.0] * 20
    found = choice(correct, uncertainty)
    assert found == (0.5, 80, 5, risk_bound(5, 80, confidence=0.9))
    assert choice(correct, uncertainty, risk=0.1).threshold == 0.0  # 5 of 80 may be 11.3 %
    assert choice(correct, uncertainty, risk=0.01) == (None, 0, 0, None)  # 0 of 40 may be 5.6 %
    assert choice(correct, uncertainty, grid=(1.0, 0.0, 0.5)) == found


def test_nothing_after_the_first_failure_is_chosen():
    # at 0.5 half is wrong; at 1 the whole would pass, but after a failure it may not be looked at
    correct = [True] * 20 + [False] * 20 + [True] * 400
    uncertainty = [0.0] * 20 + [0.5] * 20 + [1.0] * 400
    assert choice(correct, uncertainty, first_coverage=0.0).threshold == 0.0
    assert choice(correct, uncertainty, first_coverage=0.0, grid=(0.0, 1.0)).threshold == 1.0


def test_thresholds_with_too_few_answers_are_passed_over():
    correct, uncertainty = [False] + [True] * 99, [0.0] + [1.0] * 99
    assert choice(correct, uncertainty).threshold == 1.0
    assert choice(correct, uncertainty, first_coverage=0.0).threshold is None


@pytest.mark.parametrize("n", [60, 400])
def test_the_promise_holds_where_the_truth_is_known(n):
    # P(wrong | u) = u, u uniform: the risk of threshold t is t / 2, and 0.2 is exceeded above t = 0.4
    generator, n_runs = np.random.default_rng(0), 1000
    broken = 0
    for _ in range(n_runs):
        u = generator.random(n)
        found = choice(generator.random(n) >= u, u, grid=np.arange(0, 1.005, 0.01))
        broken += found.threshold is not None and found.threshold > 0.4 + 1e-9
    assert binomtest(broken, n_runs, 0.1, alternative="greater").pvalue > 0.01
    if n == 400:
        assert broken > 10  # so the test could fail: a search that ignores the risk breaks it nearly always


def test_calibrate_keeps_what_it_was_calibrated_on(rows):
    data = rows(group(400))
    found = calibrate(data, risk=0.3, confidence=0.9, **NAMED).calibration
    coe = np.array([each.measurement.coe for each in data])
    answered = coe <= found.threshold + 1e-9
    assert found.n_answered == answered.sum() > 100
    assert found.n_wrong == sum(not data[i].correct for i in np.flatnonzero(answered))
    assert found.n_wrong / found.n_answered < found.bound <= 0.3
    assert found.n_questions == len(found.uncertainties) == 400
    assert list(found.uncertainties) == sorted(found.uncertainties)
    assert {name: (a.min_responses, a.max_responses, a.weighting) for name, a in found.agents.items()} == dict.fromkeys(
        "abc", (4, 4, "probability")
    )
    assert (found.clusterer, found.correctness) == ("NormalizedMatch", "reference")


def test_where_no_threshold_keeps_the_risk_it_says_so(rows):
    wrong = [each | {"references": ["other"]} for each in group(50)]
    policy = calibrate(rows(wrong), risk=0.1, confidence=0.9, **NAMED)
    assert policy.calibration.threshold is None
    decision = policy.decide(rows(wrong)[0].measurement, round=0, max_rounds=1)
    assert (decision.action, decision.answer) == ("abstain", None)
    assert "no threshold kept the risk at most 0.1 with confidence 0.9 on 50" in decision.reason


def test_a_group_that_declines_is_not_answered_and_not_wrong(rows):
    samples = [row(f"q{i}", index=j, text="Paris", references=["Paris"]) for i in range(60) for j in range(2)]
    declining = [row(f"r{i}", index=j, text="I don't know.", references=["x"]) for i in range(60) for j in range(2)]
    found = calibrate(rows(samples + declining), risk=0.1, confidence=0.9, **NAMED).calibration
    assert (found.n_questions, found.n_answered, found.n_wrong) == (120, 60, 0)
    nothing = calibrate(rows(declining), risk=0.1, confidence=0.9, **NAMED).calibration
    assert nothing.threshold is None


def test_a_learned_gate_keeps_halves_apart(rows):
    data = rows(group(300))
    policy = calibrate(data, risk=0.3, confidence=0.9, gate="learned", **NAMED)
    found = policy.calibration
    assert 100 < found.n_questions < 200  # the half that chose the threshold
    assert found.gate.agents == ("a", "b", "c")
    assert found.n_answered > 30
    assert 0 < found.threshold < 1


def test_the_grid_reaches_the_highest_coe_there_can_be(rows):
    data = rows(group(5))
    grid = threshold_grid(data)
    assert grid[0] == 0
    assert np.log(12) <= grid[-1] < np.log(12) + 0.06
    assert threshold_grid(None)[-1] == pytest.approx(1)


def test_refuses_questions_without_verdicts(rows):
    with pytest.raises(ValueError, match=r"none has one\. Add references or labels"):
        calibrate(rows([row("q")]), risk=0.1, confidence=0.9, **NAMED)
    with pytest.raises(ValueError, match='"risk" must be above 0 and below 1; it is 10'):
        calibrate(rows(group(5)), risk=10, confidence=0.9, **NAMED)
    assert isinstance(rows([row("q")])[0], Judged)
