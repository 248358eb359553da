import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples, nearest
from coe_agents.evaluation.calibration.risk_control import (
    choose_threshold,
    first_count,
    last_passing,
    risk_bound,
    shortfall,
)
from tests.evaluation.invented import group, row, write

NAMED = {"clusterer": "NormalizedMatch", "correctness": "reference"}


def test_weights_choose_the_answer_that_is_judged(tmp_path):
    said = {"a": "right", "b": "wrong", "c": "wrong"}
    samples = []
    for name, text in said.items():
        samples.append(row("q", name, text=text, question="Which?", references=["right"]))
    samples.append(row("only a", "a", text="right", question="Which?", references=["right"]))
    path = write(tmp_path / "s.jsonl", samples)

    def judged(**options):
        with Samples([path]) as questions:
            rows = judge_samples(questions, clusterer=NormalizedMatch(), **options)
        return {row.id: row for row in rows}

    for every_cluster in (False, True):
        equal = judged(every_cluster=every_cluster)["q"]
        assert equal.measurement.answer == "wrong"
        assert equal.correct == 0.0

        weighed = judged(every_cluster=every_cluster, weights={"b": 0.25, "c": 0.25})["q"]
        measurement = weighed.measurement
        assert measurement.answer == "right"
        assert weighed.correct == 1.0
        if every_cluster:
            verdicts = dict(zip(measurement.representatives, weighed.verdicts, strict=True))
            assert verdicts == {"right": 1.0, "wrong": 0.0}
        assert measurement.support == pytest.approx((1 / 1.5, 0.5 / 1.5))

    # "only a" is left out: nobody who counts answered it
    without_a = judged(weights={"a": 0.0})
    assert list(without_a) == ["q"]
    assert without_a["q"].measurement.answer == "wrong"


def test_a_policy_holds_for_the_weights_with_which_its_questions_were_measured(tmp_path):
    weights = {"a": 0.25, "unknown": 3.0}
    with Samples([write(tmp_path / "s.jsonl", group(80))]) as questions:
        rows = judge_samples(questions, clusterer=NormalizedMatch(), weights=weights)
    policy = calibrate(rows, risk=0.4, confidence=0.9, weights=weights, **NAMED)
    assert policy.calibration.weights == {"a": 0.25, "b": 1.0, "c": 1.0}
    assert not any(policy.mismatches(each.measurement) for each in rows)
    with pytest.raises(ValueError, match="got rows measured with others"):
        calibrate(rows, risk=0.4, confidence=0.9, **NAMED)


@pytest.mark.parametrize(("n_wrong", "n"), [(0, 10), (3, 40)])
def test_the_bound_agrees_with_scipy(n_wrong, n):
    test = binomtest(n_wrong, n, alternative="less")
    exact = test.proportion_ci(0.9, method="exact").high
    assert risk_bound(n_wrong, n, confidence=0.9) == pytest.approx(exact)


def choice(correct, uncertainty, risk=0.2, confidence=0.9):
    return choose_threshold(
        correct=correct, uncertainty=uncertainty, risk=risk, confidence=confidence
    )


def test_the_choice_by_hand():
    # 40 right at 0, then 40 of which 5 are wrong, then 20 wrong
    correct = [True] * 75 + [False] * 25
    uncertainty = [0.0] * 40 + [0.5] * 40 + [1.0] * 20
    bound = risk_bound(5, 80, confidence=0.9)
    assert choice(correct, uncertainty) == (0.5, 80, 5, bound)
    # 5 of 80 may be 11.3 %
    assert choice(correct, uncertainty, risk=0.1).threshold == 0.0
    # 0 of 40 may be 5.6 %
    assert choice(correct, uncertainty, risk=0.01) == (None, 0, 0, None)
    assert choice(correct[::-1], uncertainty[::-1]) == choice(correct, uncertainty)


def test_nothing_after_the_first_failure_is_chosen():
    # at 0.5 half is wrong; at 1 the whole would pass, but after a failure it may not be looked at
    correct = [True] * 100 + [False] * 100 + [True] * 2000
    scores = np.repeat([0.0, 0.5, 1.0], [100, 100, 2000])
    assert last_passing(scores, 50, lambda n: n != 200) == (0.0, 100)
    assert choice(correct, scores).threshold == 0.0

    # of the 200 surest half is wrong
    surest_tie = [0.0] * 200 + [1.0] * 2000
    assert choice(correct, surest_tie).threshold is None


def test_how_near_a_set_came_says_how_many_more_questions_would_do():
    surest_right = [True] * 26 + [False, True] * 12
    near = shortfall(correct=surest_right, uncertainty=np.arange(50), risk=0.1, confidence=0.9)
    assert near.n_surest == 26
    assert near.n_wrong == 0
    assert near.bound == risk_bound(0, 26, confidence=0.9)
    # 38 are tested first: the 26, and 12 of which half is wrong
    _, *tested_first = near.first
    assert tested_first == [38, 6, risk_bound(6, 38, confidence=0.9)]
    # first_count is 38 of 38 and more, and 39 of 75 are as sure as 26 of 50
    more = [True] * 39 + [False, True] * 18
    assert choice(surest_right, np.arange(50), risk=0.1).threshold is None
    assert near.n_more == pytest.approx(25, abs=2)
    assert choice(more, np.arange(75), risk=0.1).threshold is not None

    # all show 10 %, but the tests begin with 50, 6 of which are wrong; more questions do not undo these
    errs_early = [False] * 6 + [True] * 194
    near = shortfall(correct=errs_early, uncertainty=np.arange(200), risk=0.1, confidence=0.9)
    assert (near.n_surest, near.n_wrong) == (200, 6)
    places = [*range(200), *np.linspace(0, 199, near.n_more)]
    verdicts = errs_early + [number % 33 != 0 for number in range(near.n_more)]  # as rarely
    assert choice(verdicts, places, risk=0.1).threshold is not None
    n_tenth = near.n_more // 10
    too_few = [*range(200), *np.linspace(0, 199, n_tenth)]
    assert choice(verdicts[: 200 + n_tenth], too_few, risk=0.1).threshold is None

    correct = [True, False] * 50
    hopeless = shortfall(correct=correct, uncertainty=[0.0] * 100, risk=0.1, confidence=0.9)
    assert hopeless.n_more is None


def test_how_near_a_set_came_counts_ties_whole():
    # the 24 that come first are right, but 6 others are as sure, 4 of which are wrong
    correct = [True] * 24 + [False] * 4 + [True] * 2 + [True, False] * 10
    uncertainty = [0.1] * 10 + [0.1 + 1e-10] * 20 + [0.5] * 20
    near = shortfall(correct=correct, uncertainty=uncertainty, risk=0.2, confidence=0.9)
    assert near.n_surest == 30
    assert near.n_wrong == 4
    assert near.bound == risk_bound(4, 30, confidence=0.9)

    # more of them are tested whole, too: the first of these sizes of which 4 of 30 wrong ones show 0.2
    sizes_that_pass = []
    for n in range(30, 120):
        n_wrong = math.ceil(4 * n / 30)
        if risk_bound(n_wrong, n, confidence=0.9) <= 0.2:
            sizes_that_pass.append(n)
    n_needed = min(sizes_that_pass)
    assert near.n_more == pytest.approx(n_needed * 50 / 30 - 50, rel=0.3)
    assert choice(correct * 3, uncertainty * 3, risk=0.2).threshold is not None


@pytest.mark.parametrize("halves", [True, False])
def test_how_near_a_set_came_is_of_the_questions_that_choose_the_threshold(rows, halves):
    complete = group(61, n_samples=2)
    without_c = [
        each | {"id": f"two {each['id']}"} for each in group(20, agents=("a", "b"), n_samples=2)
    ]
    judged = rows(complete + without_c)
    policy = calibrate(judged, risk=0.02, confidence=0.9, weights="learned", halves=halves, **NAMED)
    record = policy.calibration
    assert record.threshold is None

    # a learned weight needs each agent's answer, and a half is all that chooses
    near = nearest(record, judged)
    n_not_given = sum(each.measurement.answer is None for each in judged)
    assert n_not_given == 0
    assert near.n_answerable == record.n_questions - record.n_ties
    assert record.n_questions < 61 if halves else record.n_questions == 61


def test_the_start_by_hand():
    # floor(38 * 0.1 / 2) = 1 error of 38 may be 9.93 %, of 37 10.2 %
    assert risk_bound(1, 38, confidence=0.9) < 0.1 < risk_bound(1, 37, confidence=0.9)

    def first_of(n, risk):
        return first_count(n, risk=risk, confidence=0.9)

    assert first_of(100, risk=0.1) == 38
    # too few for one error: 0 of 22 may be 9.94 %
    assert first_of(37, risk=0.1) == 22
    assert first_of(21, risk=0.1) is None

    # of 53 answers 11 wrong ones pass at risk 0.3; 15 % wrong ones are at most 11 with probability above 0.9
    assert risk_bound(11, 53, confidence=0.9) < 0.3 < risk_bound(12, 53, confidence=0.9)
    assert binom.cdf(11, 53, 0.15) > 0.9
    assert first_of(250, risk=0.3) == 53
    assert first_of(10000, risk=0.3) == 53
    assert first_of(100, risk=0.3) == 25


def test_a_partly_right_answer_counts_by_its_share():
    correct = [1.0] * 99 + [0.25]
    bound = risk_bound(1, 100, confidence=0.9)
    assert choice(correct, [0.0] * 100) == (0.0, 100, 1, bound)
    with pytest.raises(ValueError, match='"correct" must hold True and False'):
        choice([1.5], [0.0])


questions = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 30)), min_size=1, max_size=120
)


@given(questions, st.data())
def test_a_right_answer_in_place_of_a_wrong_one_never_lowers_the_threshold(rows, data):
    correct, scores = map(list, zip(*rows, strict=True))
    better = [data.draw(st.sampled_from([share, 1.0])) for share in correct]
    low = choice(correct, scores, risk=0.3).threshold
    high = choice(better, scores, risk=0.3).threshold
    if low is not None:
        assert high is not None
        assert high >= low


def test_the_promise_holds_where_the_truth_is_known():
    # P(wrong | u) = u, u uniform: the risk of threshold t is t / 2, and 0.2 is exceeded above t = 0.4
    generator = np.random.default_rng(0)
    n_runs = 400
    n_broken = 0
    for _ in range(n_runs):
        u = generator.random(400)
        correct = generator.random(400) >= u
        threshold = choice(correct, u).threshold
        if threshold is not None and threshold > 0.4 + 1e-9:
            n_broken += 1

    test = binomtest(n_broken, n_runs, 0.1, alternative="greater")
    assert test.pvalue > 0.01
    # so the test could fail: a search that ignores the risk breaks it nearly always
    assert n_broken > 4


def test_calibrate_keeps_what_it_was_calibrated_on(known_rows):
    data = known_rows
    found = calibrate(data, risk=0.3, confidence=0.9, score="coe", **NAMED).calibration
    coe = np.array([each.measurement.coe for each in data])
    answered = coe <= found.threshold + 1e-9
    assert found.n_answered == answered.sum()
    assert found.n_answered > 100
    n_wrong = sum(not data[place].correct for place in np.flatnonzero(answered))
    assert found.n_wrong == n_wrong
    assert found.n_wrong / found.n_answered < found.bound <= 0.3
    assert found.n_questions == 400
    assert len(found.uncertainties) == 400
    assert list(found.uncertainties) == sorted(found.uncertainties)

    assert set(found.agents) == {"a", "b", "c"}
    for agent in found.agents.values():
        assert agent.min_responses == 4
        assert agent.max_responses == 4
        assert agent.weighting == "probability"
    assert found.clusterer == "NormalizedMatch"
    assert found.correctness == "reference"


@pytest.mark.parametrize(
    "options",
    [
        {"score": "confidence_vote_share"},
        {"score": "trusted_vote_share"},
        {"weights": "agreement"},
        {"weights": "learned"},
        {"weights": "learned", "score": "confidence_vote_share", "halves": True},
    ],
)
def test_names_and_orders_change_nothing(rows, options):
    new_names = {"a": "z", "b": "m", "c": "aa"}
    samples = group(120, n_samples=2)
    renamed = [{**each, "agent": new_names[each["agent"]]} for each in samples]

    def calibrated(samples):
        policy = calibrate(rows(samples), risk=0.3, confidence=0.9, **options, **NAMED)
        return policy.calibration

    found = calibrated(samples)
    other = calibrated(renamed[::-1])
    for name in ("n_questions", "n_answered", "n_wrong", "n_ties", "bound"):
        assert getattr(found, name) == getattr(other, name), name
    assert found.threshold == pytest.approx(other.threshold, abs=1e-6)
    np.testing.assert_allclose(found.uncertainties, other.uncertainties, atol=1e-6)


def disputed(n_questions):
    """Two agents, one response each: "a" is right, "b" agrees in every other question."""
    samples = []
    for number in range(n_questions):
        of_b = "right" if number % 2 else "wrong"
        for agent, text in (("a", "right"), ("b", of_b)):
            samples.append(row(f"q{number:03}", agent, 0, text, references=["right"]))
    return samples


def test_a_tie_is_never_answered_and_outside_the_risk(rows):
    found = calibrate(rows(disputed(200)), risk=0.1, confidence=0.9, **NAMED).calibration
    assert found.n_questions == 200
    assert found.n_ties == 100
    assert found.n_answered == 100
    assert found.n_wrong == 0
    assert found.threshold == 0.0


def test_learned_weights_break_a_tie_that_the_mean_leaves(rows):
    # "a" is right, but for 5 % of the questions that both are wrong about
    samples = []
    for each in disputed(300):
        is_twentieth = int(each["id"][1:]) % 20 == 19
        samples.append({**each, "text": "both wrong"} if is_twentieth else each)
    data = rows(samples)
    policy = calibrate(data, risk=0.2, confidence=0.9, weights="learned", **NAMED)
    found = policy.calibration
    assert found.trust["a"] > found.trust["b"]
    assert found.n_ties == 0
    assert found.n_answered > 200
    decision = policy.decide(data[0].measurement, round=0, max_rounds=1)
    assert decision.action == "answer"
    assert decision.answer == "right"
    assert decision.trusted_answer is True


def test_what_cannot_be_calibrated_says_why(rows):
    data = rows(group(50))
    without = [replace(each, verdicts=()) for each in data]
    for judged, options, message in (
        (without, {"weights": "learned"}, 'Pass every_cluster=True to "judge_samples"'),
        (rows([row("q")]), {}, r"none has one\. Add references or labels"),
        (data, {"risk": 10}, '"risk" must be a number above 0 and below 1; got 10'),
        (without, {"score": "confidence_vote_share"}, 'Pass every_cluster=True to "judge_samples"'),
        (data, {"halves": True}, '"halves" must go with weights that are fitted'),
        (data, {"weights": "votes"}, '"weights" must be one of equal, agreement, learned'),
        (
            data,
            {"weights": "learned", "score": "coe"},
            '"weights" of the score "coe" must be equal; got "learned"',
        ),
        (
            data,
            {"weights": "agreement", "score": "trusted_vote_share"},
            'must be equal; got "agreement"',
        ),
        (data, {"score": "learned"}, 'the score "learned" is gone: pass weights="learned"'),
        (data, {"score": "support"}, "must judge the group's answer"),
    ):
        with pytest.raises(ValueError, match=message):
            calibrate(judged, **{"risk": 0.3, "confidence": 0.9, **options}, **NAMED)
