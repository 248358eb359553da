import json

import numpy as np
import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration import learn_stopping, trajectories_of
from coe_agents.evaluation.decisions import SETTINGS, read_run
from coe_agents.policy import STOPPING_FEATURES
from tests.experiments.decided import went_on, written

SURE, SPLIT = (0.1, 0.0), (0.1, 0.6)


def read(folder, rows, settings=None):
    written(folder, rows)
    if settings is not None:
        (folder / SETTINGS).write_text(json.dumps(settings))
    return trajectories_of(read_run(folder))


def conflict(first, second, **more):
    return went_on((*SPLIT, first), (*SPLIT, second), regime="conflict", **more)


def mixed(n=40):
    """Questions of which a further round mends every second one in conflict, and never one in consensus."""
    rows = {}
    for i in range(n):
        rows[f"sure {i}"] = went_on((*SURE, i % 10 > 0), (*SURE, i % 10 > 0))
        rows[f"split {i}"] = conflict(i % 4 == 0, i % 4 == 0 or i % 2 == 1)
    return rows


def test_a_trajectory_has_the_features_of_each_round(tmp_path):
    row = went_on((0.1, 0.2, False), (0.1, 0.05, True), adopted={"a": False, "b": True})
    found = read(tmp_path / "run", {"1": row})
    assert (found.n_rounds, found.n_left_out, found.divergence, found.thresholds) == (2, 0, "kl", (0.5, 0.3))
    first, second = found.rounds["1"]
    # the epistemic part fell from 0.2 to 0.05, and one of two agents changed to the leading answer
    assert second.features.tolist() == pytest.approx([1, 0.1, 0.05, 0.15, 0.5, 0, 0, 0])
    assert first.features.tolist() == pytest.approx([0, 0.1, 0.2, 0, 0, 0, 0, 0])
    assert (first.correct, second.correct, first.tokens, second.tokens) == (0.0, 1.0, 10, 20)
    assert (first.n_requests, second.n_requests, first.is_tied, first.is_answer) == (2, 2, False, True)


def test_questions_that_ended_early_or_have_no_verdict_are_left_out_and_counted(tmp_path):
    rows = {
        "whole": conflict(True, True),
        "short": went_on((*SURE, True)),
        "unjudged": conflict(True, None),
        "failed": "AgentError: too few agents answered",
    }
    found = read(tmp_path / "run", rows)
    assert list(found.rounds) == ["whole"]
    assert found.n_left_out == 2


def test_of_a_chain_only_the_first_question_counts(tmp_path):
    first, second = conflict(True, True, question="A?"), conflict(False, False, question="B?")
    assert [each.correct for each in read(tmp_path / "run", {"1": [first, second]}).rounds["1"]] == [1.0, 1.0]


def test_the_regimes_must_be_those_of_the_thresholds(tmp_path):
    rows = {"1": conflict(True, True)}
    config = {"policy": {"kind": "regime", "aleatoric_threshold": 0.5, "epistemic_threshold": 0.4}}
    assert read(tmp_path / "same", rows, {"config": config}).thresholds == (0.5, 0.4)
    config["policy"]["epistemic_threshold"] = 0.9
    with pytest.raises(SamplesError, match=r"the regimes of other are not those at 0.5 and 0.9 nats"):
        read(tmp_path / "other", rows, {"config": config})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("regime", "war", "there is no such regime"),
        ("aleatoric", "x", "not a number of nats"),
        ("epistemic", 1e9, "not a number of nats"),
        ("tokens", -1, '"tokens" is not a count'),
        ("adopted", {"a": 3}, "true or false"),
        ("adopted", None, "AttributeError"),
        ("led", 3, "TypeError"),
    ],
)
def test_rounds_that_cannot_be_read_are_named(tmp_path, field, value, said):
    row = conflict(True, True)
    row["decision"]["trajectory"][1][field] = value
    with pytest.raises(SamplesError, match=said) as caught:
        read(tmp_path / "run", {"q7": row})
    assert "'q7' in run" in str(caught.value)


@pytest.mark.parametrize(
    "rows", [{"1": went_on((*SURE, True))}, {"1": "AgentError: gone"}, {"1": conflict(None, None)}]
)
def test_a_run_without_a_second_round_to_judge_is_refused(tmp_path, rows):
    with pytest.raises(SamplesError, match="rounds"):
        read(tmp_path / "run", rows)


def test_the_rule_learns_where_a_round_mends_answers(tmp_path):
    rounds = list(read(tmp_path / "run", mixed()).rounds.values())
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
    rule = learn_stopping(list(read(tmp_path / "run", mixed()).rounds.values()))
    for name in ("round", "aleatoric", "conformity", "unknown"):
        place = STOPPING_FEATURES.index(name)
        assert rule.now[place] == rule.after[place] == 0.0


def test_more_of_the_same_questions_let_the_gain_approach_what_was_seen(tmp_path):
    rounds = list(read(tmp_path / "run", mixed()).rounds.values())
    split = next(each[0].features for each in rounds if each[0].features[2] == 0.6)
    gains = [np.subtract(*learn_stopping(rounds * n).chances(split)[::-1]) for n in (1, 30)]
    assert gains[0] < gains[1] == pytest.approx(0.5, abs=0.03)


def test_the_order_of_questions_changes_nothing(tmp_path):
    rounds = list(read(tmp_path / "run", mixed()).rounds.values())
    assert learn_stopping(rounds).after == pytest.approx(learn_stopping(rounds[::-1]).after, abs=1e-6)


def test_too_little_to_learn_from_is_refused(tmp_path):
    right = list(read(tmp_path / "run", {str(i): conflict(True, True) for i in range(9)}).rounds.values())
    with pytest.raises(ValueError, match="at least two right and two wrong leading answers; got 9 right of 9"):
        learn_stopping(right)
    with pytest.raises(ValueError, match=r"equally many rounds, at least 2; got \[1, 2\]"):
        learn_stopping([right[0], right[1][:1]])
    with pytest.raises(ValueError, match="got none"):
        learn_stopping([])
