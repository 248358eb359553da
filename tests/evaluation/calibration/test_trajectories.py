import json

import pytest

from coe_agents.errors import SamplesError
from coe_agents.evaluation.calibration import trajectories_of
from coe_agents.evaluation.decisions import SETTINGS, read_run
from tests.experiments.decided import SURE, conflict, went_on, written


def read(folder, rows, settings=None):
    written(folder, rows)
    if settings is not None:
        (folder / SETTINGS).write_text(json.dumps(settings))
    return trajectories_of(read_run(folder))


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
