import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import coe_interval, collaborative_entropy
from tests.uncertainty.strategies import questions

LABELS = [0, 0, 0, 1, 1, 2, 2, 1, 1, 1, 0, 1]
AGENTS = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


@given(questions(), st.data())
@settings(max_examples=25)
def test_the_order_of_agents_and_responses_changes_nothing(question, data):
    labels, agents, _, weights = question
    new = np.array(data.draw(st.permutations(range(len(weights)))))
    order = np.array(data.draw(st.permutations(range(len(labels)))))
    plain = coe_interval(labels, agents, n_resamples=20)
    moved = coe_interval(labels[order], new[agents][order], n_resamples=20)
    assert moved.total == plain.total
    assert moved.aleatoric == plain.aleatoric
    assert moved.epistemic == plain.epistemic
    assert moved.estimate == pytest.approx(plain.estimate, abs=1e-12)


@given(questions(), st.sampled_from([1, 2, 30]))
def test_it_contains_the_estimate(question, n_resamples):
    labels, agents, _, _ = question
    interval = coe_interval(labels, agents, n_resamples=n_resamples)
    ends = (interval.total, interval.aleatoric, interval.epistemic)
    for (low, high), value in zip(ends, interval.estimate, strict=True):
        assert 0.0 <= low <= value <= high < math.inf
        assert not math.copysign(1.0, low) < 0
    assert interval.total[0] < interval.total[1]


def test_disagreement_has_a_bound():
    interval = coe_interval([0] * 5 + [1] * 5, [0] * 5 + [1] * 5)
    # of (1, 0) from (1/2, 1/2)
    assert interval.epistemic[1] == pytest.approx(math.log(2))
    assert interval.epistemic[1] > interval.estimate.epistemic  # of another order, by rounding
    assert interval.total[1] > math.log(2) + 0.05  # each may be less sure than it seems
    unsure = coe_interval(range(8), [0] * 4 + [1] * 4)
    assert unsure.epistemic[1] == pytest.approx(math.log(2))


@pytest.mark.parametrize("seed", range(4))
def test_of_one_resample_the_estimate_lies_within(seed):
    interval = coe_interval(LABELS, AGENTS, n_resamples=1, seed=seed)
    ends = (interval.total, interval.aleatoric, interval.epistemic)
    for (low, high), value in zip(ends, interval.estimate, strict=True):
        assert low < value < high
    # that no resample exceeds
    halves = coe_interval([0, 1] * 4, [0] * 4 + [1] * 4, n_resamples=1, seed=seed)
    assert halves.total[0] < halves.estimate.total


def test_the_numbers_of_clusters_change_nothing():
    renamed = coe_interval([2 - label for label in LABELS], AGENTS, n_resamples=20)
    assert renamed.total == coe_interval(LABELS, AGENTS, n_resamples=20).total


def test_unanimity_has_a_width_that_closes():
    highs = [coe_interval([0] * 3 * n, [0, 1, 2] * n).total for n in (1, 3, 5, 10, 30)]
    assert [low for low, _ in highs] == [0.0] * 5
    assert all(more < fewer for (_, fewer), (_, more) in pairwise(highs))
    # agents that say something else once in twenty have entropy 0.199, and in 15 responses do not in 46 % of the cases
    assert 0.199 < highs[2][1] < math.log(2)
    assert highs[4][1] < 0.15


@pytest.mark.parametrize("n", [101, 1, 4])
def test_the_interval_by_the_book(n):
    # the order of the draws: clusters by their sorted columns, agents by their rows
    counts = np.array([[1, 0, 3, 0], [1, 2, 1, 0]])
    labels = [0, 2, 2, 2, 0, 1, 1, 2]
    interval = coe_interval(labels, [0] * 4 + [1] * 4, n_resamples=n, confidence=0.9, seed=5)
    # n_i(c) + 1/2, of 4 + (3 + 1) / 2
    smoothed = np.array([[1.5, 0.5, 3.5, 0.5], [1.5, 2.5, 1.5, 0.5]]) / 6
    in_order = [[0, 1, 2, 3], [1, 0, 2, 3]]
    possible = []
    for columns in in_order:
        for rows in ([0, 1], [1, 0]):
            drawn = np.random.default_rng(5).multinomial(
                [4, 4], smoothed[rows][:, columns], size=(n, 2)
            )
            possible.append(_ends(counts / 4, smoothed, drawn / 4))
    ends = np.array([interval.total, interval.aleatoric, interval.epistemic])
    assert any(ends == pytest.approx(each) for each in possible)


def _ends(rows, smoothed, drawn):
    n = len(drawn)
    # one more draw falls below the k-th with a probability of k / (n + 1)
    places = np.array([0.05, 0.95]) * (n + 1) - 1
    estimate, centre = collaborative_entropy(rows), collaborative_entropy(smoothed)
    ends = []
    for part, (value, middle) in enumerate(zip(estimate, centre, strict=True)):
        ranked = sorted(collaborative_entropy(each)[part] for each in drawn)
        below, above = np.interp(places, range(n), ranked)
        low = max(min(2 * value - above, value), 0.0)
        ends.append([low, max(value + max(value, middle) - below, value)])
    ends[2][1] = min(ends[2][1], math.log(2))
    return np.array(ends)


def test_few_resamples_make_no_narrower_interval():
    few, many = (coe_interval(LABELS, AGENTS, n_resamples=n).total for n in (5, 2000))
    assert few[1] - few[0] > 0.4 * (many[1] - many[0])


def test_the_seed_decides_and_one_agent_disagrees_with_nobody():
    same = [
        coe_interval(LABELS, AGENTS, seed=s, n_resamples=50)
        for s in (3, 3, 4, np.random.default_rng(3))
    ]
    assert same[0] == same[1] == same[3] != same[2]
    alone = coe_interval([0, 0, 1, 2, 0], [0] * 5)
    assert alone.epistemic == (0.0, 0.0)
    assert alone.total == pytest.approx(alone.aleatoric)


def test_refuses():
    with pytest.raises(
        ValueError, match=r'"labels" must have shape \(n_responses,\); got \(1, 2\)'
    ):
        coe_interval([[0, 1]], [0, 1])
    with pytest.raises(
        ValueError, match='"confidence" must be a number above 0 and below 1; got 1'
    ):
        coe_interval([0, 1], [0, 1], confidence=1.0)
    with pytest.raises(ValueError, match='"n_resamples" must be an integer of at least 1'):
        coe_interval([0, 1], [0, 1], n_resamples=0)
