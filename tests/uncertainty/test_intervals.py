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


def ends_of(interval):
    """The lower and the upper end of each part, in the order of the estimate."""
    return interval.total, interval.aleatoric, interval.epistemic


@given(questions(), st.data())
@settings(max_examples=25)
def test_the_order_of_agents_and_responses_changes_nothing(question, data):
    labels, agents, _, weights = question
    new_places = np.array(data.draw(st.permutations(range(len(weights)))))
    order = np.array(data.draw(st.permutations(range(len(labels)))))

    plain = coe_interval(labels, agents, n_resamples=20)
    moved = coe_interval(labels[order], new_places[agents][order], n_resamples=20)
    assert ends_of(moved) == ends_of(plain)
    assert moved.estimate == pytest.approx(plain.estimate, abs=1e-12)


@given(questions(), st.sampled_from([1, 2, 30]))
def test_it_contains_the_estimate(question, n_resamples):
    labels, agents, _, _ = question
    interval = coe_interval(labels, agents, n_resamples=n_resamples)

    for (low, high), value in zip(ends_of(interval), interval.estimate, strict=True):
        assert 0.0 <= low <= value <= high < math.inf
        is_negative_zero = math.copysign(1.0, low) < 0
        assert not is_negative_zero
    low, high = interval.total
    assert low < high


def test_disagreement_has_a_bound():
    interval = coe_interval([0] * 5 + [1] * 5, [0] * 5 + [1] * 5)
    _, highest_epistemic = interval.epistemic
    _, highest_total = interval.total
    # of (1, 0) from (1/2, 1/2)
    assert highest_epistemic == pytest.approx(math.log(2))
    assert highest_epistemic > interval.estimate.epistemic  # of another order, by rounding
    assert highest_total > math.log(2) + 0.05  # each may be less sure than it seems

    unsure = coe_interval(range(8), [0] * 4 + [1] * 4)
    _, highest_epistemic = unsure.epistemic
    assert highest_epistemic == pytest.approx(math.log(2))


@pytest.mark.parametrize("seed", range(4))
def test_of_one_resample_the_estimate_lies_within(seed):
    interval = coe_interval(LABELS, AGENTS, n_resamples=1, seed=seed)
    for (low, high), value in zip(ends_of(interval), interval.estimate, strict=True):
        assert low < value < high

    # that no resample exceeds
    halves = coe_interval([0, 1] * 4, [0] * 4 + [1] * 4, n_resamples=1, seed=seed)
    low, _ = halves.total
    assert low < halves.estimate.total


def test_the_numbers_of_clusters_change_nothing():
    other_numbers = [2 - label for label in LABELS]
    plain = coe_interval(LABELS, AGENTS, n_resamples=20)
    renamed = coe_interval(other_numbers, AGENTS, n_resamples=20)
    assert renamed.total == plain.total


def test_unanimity_has_a_width_that_closes():
    highest = {}
    for n_samples in (1, 3, 5, 10, 30):
        unanimous = coe_interval([0] * 3 * n_samples, [0, 1, 2] * n_samples)
        low, highest[n_samples] = unanimous.total
        assert low == 0.0

    for of_fewer, of_more in pairwise(highest.values()):
        assert of_more < of_fewer
    # agents that say something else once in twenty have entropy 0.199, and in 15 responses do not in 46 % of the cases
    assert 0.199 < highest[5] < math.log(2)
    assert highest[30] < 0.15


@pytest.mark.parametrize("n", [101, 1, 4])
def test_the_interval_by_the_book(n):
    counts = np.array([[1, 0, 3, 0], [1, 2, 1, 0]])
    labels = [0, 2, 2, 2, 0, 1, 1, 2]
    agents = [0] * 4 + [1] * 4
    interval = coe_interval(labels, agents, n_resamples=n, confidence=0.9, seed=5)

    # n_i(c) + 1/2, of 4 + (3 + 1) / 2
    smoothed = np.array([[1.5, 0.5, 3.5, 0.5], [1.5, 2.5, 1.5, 0.5]]) / 6
    # the order of the draws: clusters by their sorted columns, agents by their rows
    possible = []
    for columns in ([0, 1, 2, 3], [1, 0, 2, 3]):
        for rows in ([0, 1], [1, 0]):
            generator = np.random.default_rng(5)
            chances = smoothed[rows][:, columns]
            drawn = generator.multinomial([4, 4], chances, size=(n, 2))
            possible.append(_ends(counts / 4, smoothed, drawn / 4))

    ends = np.array(ends_of(interval))
    assert any(ends == pytest.approx(each) for each in possible)


def _ends(rows, smoothed, drawn):
    n = len(drawn)
    # one more draw falls below the k-th with a probability of k / (n + 1)
    places = np.array([0.05, 0.95]) * (n + 1) - 1
    estimate = collaborative_entropy(rows)
    centre = collaborative_entropy(smoothed)
    resampled = [collaborative_entropy(each) for each in drawn]

    ends = []
    for part, (value, middle) in enumerate(zip(estimate, centre, strict=True)):
        ranked = sorted(entropies[part] for entropies in resampled)
        below, above = np.interp(places, range(n), ranked)
        low = min(2 * value - above, value)
        high = max(value + max(value, middle) - below, value)
        ends.append([max(low, 0.0), high])

    epistemic = ends[2]
    epistemic[1] = min(epistemic[1], math.log(2))
    return np.array(ends)


def test_few_resamples_make_no_narrower_interval():
    low_of_few, high_of_few = coe_interval(LABELS, AGENTS, n_resamples=5).total
    low_of_many, high_of_many = coe_interval(LABELS, AGENTS, n_resamples=2000).total
    assert high_of_few - low_of_few > 0.4 * (high_of_many - low_of_many)


def test_the_seed_decides_and_one_agent_disagrees_with_nobody():
    def interval_by(seed):
        return coe_interval(LABELS, AGENTS, seed=seed, n_resamples=50)

    by_three = interval_by(3)
    assert interval_by(3) == by_three
    assert interval_by(np.random.default_rng(3)) == by_three
    assert interval_by(4) != by_three

    alone = coe_interval([0, 0, 1, 2, 0], [0] * 5)
    assert alone.epistemic == (0.0, 0.0)
    assert alone.total == pytest.approx(alone.aleatoric)


def test_refuses():
    shape = r'"labels" must have shape \(n_responses,\); got \(1, 2\)'
    with pytest.raises(ValueError, match=shape):
        coe_interval([[0, 1]], [0, 1])

    confidence = '"confidence" must be a number above 0 and below 1; got 1'
    with pytest.raises(ValueError, match=confidence):
        coe_interval([0, 1], [0, 1], confidence=1.0)

    n_resamples = '"n_resamples" must be an integer of at least 1'
    with pytest.raises(ValueError, match=n_resamples):
        coe_interval([0, 1], [0, 1], n_resamples=0)
