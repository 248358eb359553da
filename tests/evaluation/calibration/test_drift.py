from dataclasses import replace

import pytest
from langchain_core.embeddings import FakeEmbeddings
from scipy.stats import binomtest

from coe_agents.clustering import EmbeddingSimilarity
from coe_agents.evaluation import check_drift
from coe_agents.evaluation.calibration.calibrate import calibrate
from coe_agents.evaluation.calibration.drift import are_own_questions
from coe_agents.policy import CalibratedPolicy
from tests.evaluation.invented import group

NAMED = {"risk": 0.3, "confidence": 0.9, "clusterer": "NormalizedMatch", "correctness": "reference"}


@pytest.fixture(scope="module")
def policy(known_rows):
    return calibrate(known_rows, weights="learned", **NAMED)


@pytest.mark.slow
def test_the_same_kind_of_questions_shows_none(policy, rows):
    found = check_drift(policy, rows(group(300, seed=1)), clusterer="NormalizedMatch")
    assert found.holds
    assert not found.scores_changed
    assert found.risk in ("kept", "open")
    assert found.n_questions == 300
    low = (
        binomtest(found.n_wrong, found.n_judged, alternative="greater")
        .proportion_ci(0.95, method="exact")
        .low
    )
    high = (
        binomtest(found.n_wrong, found.n_judged, alternative="less")
        .proportion_ci(0.95, method="exact")
        .high
    )
    assert found.risk_interval == pytest.approx((low, high))


def test_surer_but_wrong_agents_break_it(policy, rows):
    sure = [
        each | {"text": "wrong 1" if each["index"] else each["text"]} for each in group(100, seed=2)
    ]
    found = check_drift(policy, rows(sure), clusterer="NormalizedMatch")
    assert found.risk == "broken"
    assert found.scores_changed
    assert not found.holds


def test_summation_noise_is_no_drift(known_rows):
    policy = calibrate(known_rows, score="coe", **NAMED)
    noisy = [
        replace(row, measurement=replace(row.measurement, coe=row.measurement.coe + 1e-13))
        for row in known_rows
    ]
    assert check_drift(policy, noisy, clusterer="NormalizedMatch").ks_statistic == 0.0


@pytest.mark.parametrize("halves", [False, True])
def test_own_questions_are_known_by_their_uncertainties(known_rows, rows, halves):
    weights = "agreement" if halves else "equal"
    calibration = calibrate(known_rows, weights=weights, halves=halves, **NAMED).calibration
    assert are_own_questions(calibration, known_rows)
    assert not are_own_questions(calibration, known_rows[10:])
    assert not are_own_questions(calibration, rows(group(len(known_rows), seed=1)))

    # a question without a verdict is no part of a calibration
    unjudged = replace(known_rows[0], id="unjudged", correct=None)
    assert are_own_questions(calibration, [*known_rows, unjudged])


def test_ties_are_counted_and_not_answered(policy, rows):
    tied = [each for each in group(100, seed=4, agents=("a", "b")) if each["index"] == 0]
    pairs = rows(tied)
    n_ties = sum(len(row.measurement.tied) > 1 for row in pairs)
    assert n_ties > 20
    threshold = replace(policy.calibration, trust=None, score="coe", threshold=9.0)
    found = check_drift(CalibratedPolicy(threshold), pairs, clusterer="NormalizedMatch")
    assert (found.n_ties, found.coverage) == (n_ties, (100 - n_ties) / 100)
    assert found.n_judged == 100 - n_ties


def test_another_option_of_the_clusterer_is_a_mismatch(policy, rows):
    then = {"clusterer": "EmbeddingSimilarity", "clusterer_options": {"threshold": 0.93}}
    calibrated = CalibratedPolicy(replace(policy.calibration, **then))
    new = rows(group(60, seed=1))

    def mismatches(threshold):
        clusterer = EmbeddingSimilarity(FakeEmbeddings(size=2), threshold=threshold)
        return check_drift(calibrated, new, clusterer=clusterer).mismatches

    assert mismatches(0.93) == ()
    assert mismatches(0.5) == (
        "threshold 0.5 of the clusterer differs from threshold 0.93 at calibration",
    )


def test_another_group_is_a_mismatch(policy, rows):
    few = rows([each for each in group(60, seed=1) if each["index"] < 2])
    found = check_drift(policy, few, clusterer="BidirectionalEntailment")
    assert "a gave 2 responses, and 4 when calibrated" in found.mismatches
    assert (
        "clusters come from BidirectionalEntailment, and from NormalizedMatch when calibrated"
        in found.mismatches
    )
    assert len(found.mismatches) == 4  # each said once
    assert not found.holds


def test_a_missing_agent_of_learned_support_is_counted(rows):
    judged = rows(group(100), proposer="a")
    policy = calibrate(judged, proposer="a", weights="learned", **NAMED)
    samples = [each for each in group(30, seed=1) if (each["id"], each["agent"]) != ("q00000", "b")]
    data = rows(samples, proposer="a")
    found = check_drift(policy, data, clusterer="NormalizedMatch")
    assert (found.n_questions, found.n_unmeasurable) == (29, 1)
    with pytest.raises(ValueError, match="questions with all agents of the policy"):
        check_drift(policy, data[:1], clusterer="NormalizedMatch")
