import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.evaluation.calibration.calibrate import Judged, calibrate
from coe_agents.evaluation.calibration.risk_control import (
    choose_audited_threshold,
    choose_threshold,
    risk_bound,
    weighted_risk_bound,
)
from coe_agents.policy import CalibratedPolicy
from coe_agents.rulings.audits import Seen, _as_in_traffic, recalibrate
from tests.evaluation.invented import group
from tests.measurement.measurements import measured


def test_the_bound_of_two_right_answers_by_hand():
    # e(r) is the mean over b of (1 + b r / (1 - r))^2; with q = r / (1 - r) it is 1 + 2 * 0.59 q + 0.4205 q^2, where
    # 0.59 is the mean of the bets and 0.4205 that of their squares, and 2 at the root below
    q = (math.sqrt(1.18**2 + 4 * 0.4205) - 1.18) / 0.841
    assert weighted_risk_bound([0, 0], [1, 1], confidence=0.5) == pytest.approx(
        q / (1 + q), abs=1e-6
    )


@given(st.integers(1, 60), st.data(), st.sampled_from([0.5, 0.9]))
def test_for_equal_probabilities_it_is_above_clopper_and_pearson(n, data, confidence):
    n_wrong = data.draw(st.integers(0, n))
    losses = [1] * n_wrong + [0] * (n - n_wrong)
    found = weighted_risk_bound(losses, [0.1] * n, confidence=confidence)
    assert found == pytest.approx(
        weighted_risk_bound(losses[::-1], [1] * n, confidence=confidence), abs=1e-6
    )
    assert risk_bound(n_wrong, n, confidence=confidence) <= found + 1e-6
    assert found <= 1


def test_the_bound_holds_as_often_as_stated_for_unequal_probabilities():
    """Cases that are wrong more often are seen more often: their plain share would be 0.37, the risk is 0.2."""
    generator, misses, found = np.random.default_rng(0), 0, []
    for _ in range(400):
        is_hard = generator.random(1500) < 0.25
        losses = (generator.random(1500) < np.where(is_hard, 0.5, 0.1)).astype(float)
        p = np.where(is_hard, 1.0, 0.2)
        seen = generator.random(1500) < p
        found.append(weighted_risk_bound(losses[seen], p[seen], confidence=0.8))
        misses += found[-1] < 0.2
    assert misses <= 0.2 * 400 + 3 * math.sqrt(0.16 * 400)
    assert np.mean(found) < 0.3  # and is worth something


def test_no_case_shows_nothing():
    assert weighted_risk_bound([], [], confidence=0.9) == 1.0
    assert weighted_risk_bound([1, 1], [1, 1], confidence=0.9) == 1.0
    with pytest.raises(ValueError, match='"probabilities" in'):
        weighted_risk_bound([0.0], [0.0], confidence=0.9)


def test_a_threshold_keeps_the_risk_as_often_as_stated():
    """P(wrong | u) = u: the risk of a threshold t is t / 2. Answers below 0.3 are audited, the others escalated."""
    generator, broken, chosen = np.random.default_rng(1), 0, []
    for _ in range(60):
        u = generator.random(4000)
        p = np.where(u <= 0.3, 0.2, 1.0)
        seen = generator.random(4000) < p
        found = choose_audited_threshold(
            correct=generator.random(seen.sum()) >= u[seen],
            uncertainty=u[seen],
            probabilities=p[seen],
            risk=0.2,
            confidence=0.8,
        )
        chosen.append(found.threshold or 0.0)
        broken += chosen[-1] / 2 > 0.2
    assert broken <= 0.2 * 60 + 3 * math.sqrt(0.16 * 60)
    assert np.mean(chosen) > 0.2


def test_the_uncertainties_are_as_in_the_traffic():
    # two audits at rate 0.5 stand for four answers, beside two escalations: 6 cases, worth 3 audits
    assert _as_in_traffic(np.array([3.0, 1.0, 2.0, 4.0]), np.array([1.0, 0.5, 0.5, 1.0])) == (
        1.0,
        2.0,
        3.0,
        4.0,
    )


@pytest.fixture(scope="module")
def policy(known_rows):
    named = {"score": "coe", "clusterer": "NormalizedMatch", "correctness": "reference"}
    return calibrate(known_rows, risk=0.3, confidence=0.9, **named)


@pytest.fixture(scope="module")
def traffic(rows):
    return rows(group(600, seed=1))


def ruled(policy, traffic):
    """Judged cases of the same kind; those that the policy answers are audited, the others escalated."""
    seen = {}
    for row in traffic:
        is_answer = policy.decide(row.measurement, round=0, max_rounds=1).action == "answer"
        seen[row.id] = Seen(1.0, "audit" if is_answer else "escalation")
    return traffic, seen


@pytest.mark.slow
def test_audits_raise_a_threshold_that_is_too_low(policy, traffic):
    strict = replace(policy.calibration, threshold=policy.calibration.uncertainties[120])
    cases, seen = ruled(CalibratedPolicy(strict), traffic)
    found = recalibrate(
        CalibratedPolicy(strict, otherwise="escalate"), cases, seen, risk=0.3, confidence=0.9
    )
    assert found.outcome == "raised"
    assert found.policy.calibration.threshold > strict.threshold
    assert found.policy.calibration.bound <= 0.3
    assert found.policy.otherwise == "escalate"
    assert found.n_audits + found.n_escalations == found.policy.calibration.n_questions


def test_with_and_without_escalations_that_the_threshold_does_not_explain_the_lower_choice_is_used(
    policy, traffic
):
    """A former, lower threshold may have escalated them: then they stand for answers; another part may have, too."""
    loose = CalibratedPolicy(
        replace(policy.calibration, threshold=policy.calibration.uncertainties[200])
    )
    cases, seen = ruled(loose, traffic)

    def threshold(cases, seen, *, n_below=0):
        found = recalibrate(loose, cases, seen, risk=0.3, confidence=0.9)
        assert (found.n_below, found.n_escalations > 0) == (n_below, True)
        return found.policy.calibration.threshold

    for is_right in (True, False):
        some = [
            row.id for row in cases if seen[row.id].kind == "audit" and row.correct == is_right
        ][:20]
        without = threshold([row for row in cases if row.id not in some], seen)
        assert without != threshold(cases, seen)
        escalated = seen | dict.fromkeys(some, Seen(1.0, "escalation"))
        assert threshold(cases, escalated, n_below=20) == min(without, threshold(cases, seen))


def audited(policy, rate, *, wrong, seed):
    """Of 500 questions with uncertainties on [0, 1], a share of the answers, up to 0.5, and all escalations."""
    generator = np.random.default_rng(seed)
    scores, draws, errs = generator.random((3, 500))
    rows = [
        Judged(str(place), measured(coe=score, aleatoric=score), float(err >= wrong(score)))
        for place, (score, draw, err) in enumerate(zip(scores.tolist(), draws, errs, strict=True))
        if score > 0.5 or draw < rate
    ]
    seen = {
        row.id: Seen(1.0, "escalation") if row.measurement.coe > 0.5 else Seen(rate, "audit")
        for row in rows
    }
    return CalibratedPolicy(replace(policy.calibration, threshold=0.5)), rows, seen


@pytest.mark.slow
def test_with_audits_of_one_rate_the_risk_is_kept_as_often_as_stated(policy):
    """Each answer is wrong exactly as often as is allowed: no bound may lie below that, at whatever threshold."""
    broken, n = 0, 100
    for seed in range(n):
        cases = audited(policy, 0.2, wrong=lambda _: 0.2, seed=seed)
        broken += (
            recalibrate(*cases, risk=0.2, confidence=0.8).policy.calibration.threshold is not None
        )
    assert 0 < broken <= 0.2 * n + 3 * math.sqrt(0.16 * n)


def test_audits_of_one_rate_are_counted_and_those_of_two_rates_are_not(policy):
    present, rows, seen = audited(policy, 0.4, wrong=lambda score: 0.6 * score, seed=2)
    found = recalibrate(present, rows, seen, risk=0.2, confidence=0.9)
    audits = [(row.correct, row.measurement.coe) for row in rows if seen[row.id].kind == "audit"]
    correct, scores = zip(*audits, strict=True)
    counted = choose_threshold(correct=correct, uncertainty=scores, risk=0.2, confidence=0.95)
    record = found.policy.calibration
    assert (record.threshold, record.n_answered, record.n_wrong, record.bound) == counted
    assert found.outcome == "lowered"

    one = next(row.id for row in rows if seen[row.id].kind == "audit")
    found = recalibrate(present, rows, seen | {one: Seen(0.5, "audit")}, risk=0.2, confidence=0.9)
    assert found.outcome == "none"  # by the weights alone


def test_without_audits_the_threshold_stays(policy, traffic):
    strict = CalibratedPolicy(
        replace(policy.calibration, threshold=policy.calibration.uncertainties[120])
    )
    cases, seen = ruled(strict, traffic)
    escalated = [row for row in cases if seen[row.id].kind == "escalation"]
    found = recalibrate(strict, escalated, seen, risk=0.3, confidence=0.9)
    assert (found.outcome, found.policy, found.n_audits) == ("unaudited", strict, 0)
    audits = [row for row in cases if seen[row.id].kind == "audit"]
    few = recalibrate(strict, audits[:3], seen, risk=0.3, confidence=0.9)
    assert (few.outcome, few.policy, few.n_audits) == ("few", strict, 3)


def test_every_case_must_be_known(policy, traffic):
    cases, seen = ruled(policy, traffic)
    with pytest.raises(ValueError, match='"seen" must hold every case'):
        recalibrate(policy, cases, {}, risk=0.3, confidence=0.9)
    proposing = CalibratedPolicy(replace(policy.calibration, score="", proposer="a"))
    with pytest.raises(ValueError, match="not the proposals of an agent; got 'a'"):
        recalibrate(proposing, cases, seen, risk=0.3, confidence=0.9)
    for probability in (0.0, 1e-310, math.nan):  # the inverse of the second is no number
        with pytest.raises(
            ValueError, match='"seen_probability" must be a number above 1e-100 and at most 1'
        ):
            Seen(probability, "audit")


def test_how_a_case_was_seen_is_read_of_its_sample():
    assert Seen.of({"id": "1", "seen_probability": 0.5, "kind": "audit"}) == Seen(0.5, "audit")
    for sample in (
        {"kind": "audit"},
        {"seen_probability": True, "kind": "audit"},
        {"seen_probability": "1"},
    ):
        with pytest.raises(
            TypeError, match='"seen_probability" must be a number above 1e-100 and at most 1'
        ):
            Seen.of(sample)
    with pytest.raises(ValueError, match='"kind" must be one of audit, escalation'):
        Seen.of({"seen_probability": 1.0})
