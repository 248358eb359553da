import gzip
import json

import numpy as np
import pytest

from coe_agents.claims import ClaimPolicy, Claims, Overlap
from coe_agents.claims.calibrate import (
    JudgedClaims,
    calibrate_claims,
    claim_figures,
    judge_labelled,
    read_labelled,
)
from coe_agents.claims.support import EntailedBy
from coe_agents.errors import ConfigurationError, SamplesError
from coe_agents.evaluation.metrics import auroc
from coe_agents.testing import TableEntailment


def drawn(n, *, seed=0, per_question=10):
    """Returns claims whose probability to be wrong is their uncertainty, half of it in every second question."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(n):
        u = generator.random(per_question)
        right = generator.random(per_question) >= u * (1.0 if number % 2 else 0.5)
        found.append(
            JudgedClaims(str(number), str(number), "a", 1.0 - u, np.full(u.size, np.nan), right)
        )
    return found


def test_a_calibrated_policy_keeps_its_risk_and_says_what_it_was_chosen_on(tmp_path):
    risk = 0.2
    others = drawn(1000, seed=99)
    wrong = []
    n_over = 0
    for seed in range(10):
        policy = calibrate_claims(drawn(150, seed=seed), risk=risk)
        kept = [each.between >= policy.min_support for each in others]
        shares = [
            (~each.right)[k].mean() if k.any() else 0.0
            for each, k in zip(others, kept, strict=True)
        ]
        wrong.append(np.mean(shares))
        n_over += wrong[-1] > risk
    assert n_over <= 1  # confidence 0.9
    assert np.mean(wrong) > 0.1  # and it is not kept by giving nothing
    known = policy.calibration
    assert known.n_claims == 1500
    assert known.n_questions == 150
    assert known.n_answers == 150
    assert known.n_wrong / known.n_kept < known.bound <= risk + 1e-9
    assert "of 1500 claims" in str(known)
    policy.save(tmp_path / "policy.json")
    assert ClaimPolicy.load(tmp_path / "policy.json") == policy
    with pytest.raises(ValueError, match="calibrated with the support Overlap; got EntailedBy"):
        Claims(support=EntailedBy(TableEntailment({})), policy=policy)
    (tmp_path / "policy.json").write_text(
        '{"format": "coe-agents claim policy 1", "min_support": 2}'
    )
    with pytest.raises(ConfigurationError, match="damaged"):
        ClaimPolicy.load(tmp_path / "policy.json")


def test_questions_are_the_units_and_not_claims():
    # one question with a thousand right claims shows less than twenty questions with one
    many = [JudgedClaims("q", "q", "a", np.ones(1000), np.ones(1000), np.ones(1000, dtype=bool))]
    assert calibrate_claims(many, risk=0.2) is None
    few = [
        JudgedClaims(str(i), str(i), "a", np.ones(1), np.ones(1), np.ones(1, dtype=bool))
        for i in range(20)
    ]
    assert calibrate_claims(few, risk=0.2).min_support == pytest.approx(1.0)
    alone = JudgedClaims("q", "q", "a", np.array([np.nan]), np.ones(1), np.ones(1, dtype=bool))
    with pytest.raises(ValueError, match="that another agent could support"):
        calibrate_claims([alone], risk=0.2)


def write(path, answers, **more):
    record = {"id": "1", "question": "?", "entity": "Ada", "answers": answers, **more}
    path.write_text(json.dumps(record) + "\n\n")
    return path


def test_a_file_of_claims_is_judged_by_the_texts_of_the_others(tmp_path):
    claims = [
        {"text": "Ada wrote programs.", "supported": True},
        {"text": "Ada died in Rome.", "supported": False},
    ]
    answers = {
        "a": {
            "text": "Ada wrote programs. Ada died in Rome.",
            "claims": [*claims, {"text": "So.", "supported": None}],
        },
        "b": {"text": "Ada wrote programs.", "claims": []},
    }
    path = write(
        tmp_path / "x.claims.jsonl", answers, samples={"a": ["Ada died in Rome."], "b": ["?"]}
    )
    (found,) = judge_labelled(read_labelled([path]), Overlap())
    assert found.between.tolist() == pytest.approx(
        [0.5, 1 / 6]
    )  # b: its answer and its sample, which says nothing
    assert found.within.tolist() == pytest.approx([1 / 3, 1.0])
    figures = claim_figures([found], n_resamples=10)["agents"]["a"]
    assert figures["n_claims"] == 2
    assert figures["n_wrong"] == 1
    assert figures["auroc"][0] == 1.0
    assert figures["auroc_within"][0] == 0.0
    assert figures["precision"]["0.5"] == 1.0


def test_figures_are_those_of_all_claims_and_their_interval_is_over_entities():
    judged = drawn(30)
    figures = claim_figures(judged, n_resamples=200)["agents"]["a"]
    right, u = (
        np.concatenate([getattr(each, name) for each in judged]) for name in ("right", "between")
    )
    value, low, high = figures["auroc"]
    assert value == pytest.approx(auroc(correct=right, uncertainty=1.0 - u))
    assert low < value < high
    assert figures["auroc_within"] is None


def test_a_cut_or_damaged_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "x.claims.jsonl.gz"
    packed = gzip.compress(b'{"id": 1}' * 99)
    for damaged in (packed[:-9], packed[:12] + bytes([packed[12] ^ 255]) + packed[13:], b"no gzip"):
        path.write_bytes(damaged)
        with pytest.raises(SamplesError, match=r"x.claims.jsonl.gz cannot be read"):
            list(read_labelled([path]))


@pytest.mark.parametrize(
    "line", ["[]", '{"id": 1}', '{"id": 1, "answers": {"a": {"text": 3, "claims": []}}}', "{"]
)
def test_a_line_that_is_no_question_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / "x.claims.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(SamplesError, match="line 2 is no question"):
        list(read_labelled([path]))
    label = {"a": {"text": "A.", "claims": [{"text": "A.", "supported": 1}]}}
    with pytest.raises(SamplesError, match='"supported" must be true, false or null'):
        list(read_labelled([write(path, label)]))
