import numpy as np
import pytest

from coe_agents.evaluation.calibration import learn_stopping, trajectories_of
from coe_agents.evaluation.decisions import read_run
from coe_agents.policy import STOPPING_FEATURES
from tests.experiments.decided import conflict, mixed, written


def rounds_of(folder, rows):
    return list(trajectories_of(read_run(written(folder / "run", rows))).rounds.values())


def test_the_rule_learns_where_a_round_mends_answers(tmp_path):
    rounds = rounds_of(tmp_path, mixed())
    rule = learn_stopping(rounds, price=0.02)
    sure, split = (next(each[0].features for each in rounds if each[0].features[2] == u_e) for u_e in (0.0, 0.6))
    assert rule.pays(split)
    assert not rule.pays(sure)
    assert (rule.n_rounds, rule.n_questions, rule.price) == (2, 80, 0.02)
    # of the split ones, 1 in 4 is right before and 3 in 4 after; of the sure ones 9 in 10. The penalty on changes
    # draws the gain towards 0, and with so few questions the two probabilities to their mean
    now, after = rule.chances(split)
    assert (now + after) / 2 == pytest.approx(0.5, abs=0.05)
    assert 0.1 < after - now < 0.5
    assert rule.chances(sure)[0] == pytest.approx(0.9, abs=0.06)


def test_features_that_do_not_vary_have_no_coefficient(tmp_path):
    rule = learn_stopping(rounds_of(tmp_path, mixed()))
    for name in ("round", "aleatoric", "conformity", "unknown"):
        place = STOPPING_FEATURES.index(name)
        assert rule.now[place] == rule.after[place] == 0.0


def test_more_of_the_same_questions_let_the_gain_approach_what_was_seen(tmp_path):
    rounds = rounds_of(tmp_path, mixed())
    split = next(each[0].features for each in rounds if each[0].features[2] == 0.6)
    gains = [np.subtract(*learn_stopping(rounds * n).chances(split)[::-1]) for n in (1, 30)]
    assert gains[0] < gains[1] == pytest.approx(0.5, abs=0.03)


def test_the_order_of_questions_changes_nothing(tmp_path):
    rounds = rounds_of(tmp_path, mixed())
    assert learn_stopping(rounds).after == pytest.approx(learn_stopping(rounds[::-1]).after, abs=1e-6)


def test_too_little_to_learn_from_is_refused(tmp_path):
    right = rounds_of(tmp_path, {str(i): conflict(True, True) for i in range(9)})
    with pytest.raises(ValueError, match="at least two right and two wrong leading answers; got 9 right of 9"):
        learn_stopping(right)
    with pytest.raises(ValueError, match=r"equally many rounds, at least 2; got \[1, 2\]"):
        learn_stopping([right[0], right[1][:1]])
    with pytest.raises(ValueError, match="got none"):
        learn_stopping([])
