import gzip
import json
from dataclasses import replace

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
from coe_agents.testing.doubles import TableEntailment


def drawn(n, *, seed=0, per_question=10):
    """Returns claims whose probability to be wrong is their uncertainty, half of it in every second question."""
    generator = np.random.default_rng(seed)
    claims = []
    for number in range(n):
        uncertainty = generator.random(per_question)
        p_wrong = uncertainty if number % 2 else uncertainty / 2
        right = generator.random(per_question) >= p_wrong
        unknown = np.full(per_question, np.nan)
        claims.append(judged(number, between=1.0 - uncertainty, within=unknown, right=right))
    return claims


def judged(question, *, between, within, right):
    return JudgedClaims(str(question), str(question), "a", between, within, right)


def test_a_calibrated_policy_keeps_its_risk():
    risk = 0.2
    others = drawn(1000, seed=99)
    risks = []
    for seed in range(10):
        policy = calibrate_claims(drawn(150, seed=seed), risk=risk)
        shares = []
        for claims in others:
            kept = claims.right[claims.between >= policy.min_support]
            shares.append(np.mean(~kept) if kept.size else 0.0)
        risks.append(np.mean(shares))
    assert sum(each > risk for each in risks) <= 1  # confidence 0.9
    assert np.mean(risks) > 0.1  # and it is not kept by giving nothing


def test_a_policy_says_what_it_was_chosen_on_and_is_saved(tmp_path):
    policy = calibrate_claims(drawn(150), risk=0.2)
    known = policy.calibration
    assert (known.n_claims, known.n_questions, known.n_answers) == (1500, 150, 150)
    assert known.n_wrong / known.n_kept < known.bound <= 0.2 + 1e-9
    assert "of 1500 claims" in str(known)
    path = tmp_path / "policy.json"
    policy.save(path)
    assert ClaimPolicy.load(path) == policy
    with pytest.raises(ValueError, match="calibrated with the support Overlap; got EntailedBy"):
        Claims(support=EntailedBy(TableEntailment({})), policy=policy)
    path.write_text('{"format": "coe-agents claim policy 1", "min_support": 2}')
    with pytest.raises(ConfigurationError, match="damaged"):
        ClaimPolicy.load(path)


def right_claims(question, n):
    return judged(question, between=np.ones(n), within=np.ones(n), right=np.ones(n, dtype=bool))


def test_questions_are_the_units_and_not_claims():
    # one question with a thousand right claims shows less than twenty questions with one
    assert calibrate_claims([right_claims("q", 1000)], risk=0.2) is None
    policy = calibrate_claims([right_claims(number, 1) for number in range(20)], risk=0.2)
    assert policy.min_support == pytest.approx(1.0)
    alone = replace(right_claims("q", 1), between=np.array([np.nan]))
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
        {"text": "So.", "supported": None},
    ]
    answers = {
        "a": {"text": "Ada wrote programs. Ada died in Rome.", "claims": claims},
        "b": {"text": "Ada wrote programs.", "claims": []},
    }
    samples = {"a": ["Ada died in Rome."], "b": ["?"]}
    path = write(tmp_path / "x.claims.jsonl", answers, samples=samples)
    (of_a,) = judge_labelled(read_labelled([path]), Overlap())
    # b: its answer and its sample, which says nothing
    assert of_a.between.tolist() == pytest.approx([0.5, 1 / 6])
    assert of_a.within.tolist() == pytest.approx([1 / 3, 1.0])
    figures = claim_figures([of_a], n_resamples=10)["agents"]["a"]
    assert (figures["n_claims"], figures["n_wrong"]) == (2, 1)
    assert (figures["auroc"][0], figures["auroc_within"][0]) == (1.0, 0.0)
    assert figures["precision"]["0.5"] == 1.0


def test_figures_are_those_of_all_claims_and_their_interval_is_over_entities():
    claims = drawn(30)
    figures = claim_figures(claims, n_resamples=200)["agents"]["a"]
    right = np.concatenate([each.right for each in claims])
    between = np.concatenate([each.between for each in claims])
    value, low, high = figures["auroc"]
    assert value == pytest.approx(auroc(correct=right, uncertainty=1.0 - between))
    assert low < value < high
    assert figures["auroc_within"] is None


def test_a_cut_or_damaged_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "x.claims.jsonl.gz"
    packed = gzip.compress(b'{"id": 1}' * 99)
    flipped = bytearray(packed)
    flipped[12] ^= 255
    for damaged in (packed[:-9], bytes(flipped), b"no gzip"):
        path.write_bytes(damaged)
        with pytest.raises(SamplesError, match=r"x.claims.jsonl.gz cannot be read"):
            list(read_labelled([path]))


@pytest.mark.parametrize(
    "line", ["[]", '{"id": 1}', '{"id": 1, "answers": {"a": {"text": 3, "claims": []}}}', "{"]
)
def test_a_line_that_is_no_question_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / "x.claims.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(SamplesError, match=":2: this is no question"):
        list(read_labelled([path]))
    label = {"a": {"text": "A.", "claims": [{"text": "A.", "supported": 1}]}}
    with pytest.raises(SamplesError, match='"supported" must be true, false or null'):
        list(read_labelled([write(path, label)]))
