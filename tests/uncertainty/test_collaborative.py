import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import (
    cluster_distributions,
    collaborative_entropy,
    entropy,
    semantic_entropy,
)
from coe_agents.uncertainty.collaborative import ensemble_mean
from tests.uncertainty.strategies import groups

LOG_2 = math.log(2)
DIVERGENCES = ["kl", "js", "hellinger", "wasserstein", "total_variation"]
divergences = st.sampled_from(DIVERGENCES)
HALF_AND_SURE = [[0.5, 0.5], [1.0, 0.0]]
OPPOSITE = [[1.0, 0.0], [0.0, 1.0]]


def test_by_hand_and_a_weight_that_underflows_gives_no_infinity():
    split = collaborative_entropy(HALF_AND_SURE)
    # (log 2 + 0) / 2; mean (3/4, 1/4); (1/2 (1/2 log(2/3) + 1/2 log 2) + 1/2 log(4/3)) = 3/4 log(4/3)
    assert split.aleatoric == pytest.approx(LOG_2 / 2, abs=1e-15)
    assert split.epistemic == pytest.approx(0.75 * math.log(4 / 3), abs=1e-15)
    assert split.total == split.aleatoric + split.epistemic
    for value in split:
        assert isinstance(value, float)

    nearly_certain = [[1.0, 0.0], [1 - 1e-9, 1e-9]]
    split = collaborative_entropy(nearly_certain, weights=[1.0, 5e-324])
    assert split.epistemic == pytest.approx(0.0, abs=1e-12)


@given(groups(), divergences)
@settings(max_examples=60)
def test_theorem_1_non_negativity_in_any_order_of_agents_and_clusters(group, divergence):
    distributions, weights = group
    split = collaborative_entropy(distributions, weights=weights, divergence=divergence)
    for value in split:
        assert math.isfinite(value)
        assert value >= 0.0
        assert math.copysign(1.0, value) == 1.0

    other = collaborative_entropy(
        distributions[::-1, ::-1], weights=weights[::-1], divergence=divergence
    )
    assert other == pytest.approx(split, abs=1e-12)

    with_empty_clusters = np.pad(distributions, ((0, 0), (0, 2)))
    padded = collaborative_entropy(with_empty_clusters, weights=weights, divergence=divergence)
    assert padded == pytest.approx(split, abs=1e-12)

    first = distributions[:1]
    alone = collaborative_entropy(first, divergence=divergence)
    [own_entropy] = semantic_entropy(first)
    assert alone.epistemic == 0.0
    assert alone.aleatoric == own_entropy
    assert alone.total == own_entropy


@given(groups(positive_weights=True), divergences)
@settings(max_examples=60)
def test_theorem_2_zero_only_at_certain_consensus(group, divergence):
    distributions, weights = group
    split = collaborative_entropy(distributions, weights=weights, divergence=divergence)
    # the smallest mass drawn, 1e-9 of a row, is still 2e-8 nats of entropy; below that it is as good as certain
    leaders = distributions.argmax(axis=1)
    are_certain = (distributions.max(axis=1) > 1 - 1e-12).all()
    are_of_one_mind = (leaders == leaders[0]).all()
    assert (split.total < 1e-12) == bool(are_certain and are_of_one_mind)


@pytest.mark.parametrize("n_agents", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_theorem_3a_consensus_of_deltas_is_exactly_zero(n_agents, divergence):
    consensus = np.tile([0.0, 1.0, 0.0], (n_agents, 1))
    assert collaborative_entropy(consensus, divergence=divergence) == (0.0, 0.0, 0.0)


@given(groups(min_agents=2, min_clusters=2, positive_weights=True))
@settings(max_examples=30)
def test_theorem_3b_deltas_that_differ(group):
    drawn, weights = group
    leaders = drawn.argmax(axis=1)
    deltas = np.eye(drawn.shape[1])[leaders]
    split = collaborative_entropy(deltas, weights=weights)
    # D(p_i* || p_bar*) = -log of the weight that its cluster has
    residual = 0.0
    for weight, leader in zip(weights, leaders, strict=True):
        weight_of_cluster = weights[leaders == leader].sum()
        residual -= weight * math.log(weight_of_cluster)
    assert split.aleatoric == 0.0
    assert split.epistemic == pytest.approx(residual, abs=1e-12)
    differ = len(set(leaders.tolist())) > 1
    assert (split.epistemic > 1e-9) == differ


@given(groups())
def test_identity_and_bounds_of_kl(group):
    distributions, weights = group
    split = collaborative_entropy(distributions, weights=weights)
    mean_entropy = entropy(ensemble_mean(distributions, weights=weights))
    shares = 1 / len(weights) - weights
    weighted = shares @ semantic_entropy(distributions)
    assert split.total == pytest.approx(mean_entropy + weighted, abs=1e-12)
    assert split.epistemic <= entropy(weights) + 1e-12
    assert entropy(weights) <= math.log(len(weights)) + 1e-12


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_an_agent_of_weight_zero_adds_nothing(divergence):
    heard = collaborative_entropy(OPPOSITE, weights=[1.0, 0.0], divergence=divergence)
    assert heard == (0.0, 0.0, 0.0)
    three = [[0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]
    with_third = collaborative_entropy(three, weights=[0.5, 0.5, 0.0], divergence=divergence)
    without = collaborative_entropy(three[:2], divergence=divergence)
    assert with_third.epistemic == pytest.approx(without.epistemic, abs=1e-15)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("weights", [None, [0.2, 0.3, 0.5], [[[0.2, 0.3, 0.5]], [[1.0, 0.0, 0.0]]]])
def test_batch_equals_single(divergence, weights):
    distributions = np.random.default_rng(0).dirichlet(np.full(5, 0.3), (2, 4, 3))
    batch = collaborative_entropy(distributions, weights=weights, divergence=divergence)
    every = None if weights is None else np.broadcast_to(weights, (2, 4, 3))
    for index in np.ndindex(2, 4):
        own = None if every is None else every[index]
        single = collaborative_entropy(distributions[index], weights=own, divergence=divergence)
        assert [part[index] for part in batch] == pytest.approx(list(single), abs=1e-14)


def test_refuses():
    sum_of_row = r'every row of "distributions" must sum to 1; row 0 sums to 0\.9. To turn'
    with pytest.raises(ValueError, match=sum_of_row):
        collaborative_entropy([[0.5, 0.4]])
    with pytest.raises(ValueError, match=r'"distributions" must not be empty; got shape \(0, 3\)'):
        collaborative_entropy(np.empty((0, 3)))
    with pytest.raises(ValueError, match=r"got shape \(3, 2\)"):
        collaborative_entropy(OPPOSITE, weights=[[0.5, 0.5]] * 3)
    unknown = r"one of kl, js, hellinger, .*; got 'tv'. Choose one of them"
    with pytest.raises(ValueError, match=unknown):
        collaborative_entropy(OPPOSITE, divergence="tv")


def test_the_mean_of_agents_which_is_exactly_theirs_where_they_say_the_same():
    assert ensemble_mean(OPPOSITE).tolist() == [0.5, 0.5]
    three_questions = ensemble_mean([OPPOSITE] * 3, weights=[0.25, 0.75])
    expected = np.tile([0.25, 0.75], (3, 1))
    assert three_questions == pytest.approx(expected)
    with pytest.raises(ValueError, match='every row of "distributions" must sum to 1'):
        ensemble_mean([[0.2, 0.2]])
    # summed by these weights, the row comes out as another in the last bit
    same = [[0.2, 0.3, 0.5]] * 3
    apart = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    weights = [0.6, 0.3, 0.1]
    assert ensemble_mean(same, weights=weights).tolist() == same[0]

    # the sum of 49 times 1 / 49 is higher
    nearly_all_certain = [[1.0, 0.0]] * 48 + [[1 - 1e-15, 1e-15]]
    highest, _ = ensemble_mean(nearly_all_certain)
    assert highest <= 1.0
    # each question by itself
    both = ensemble_mean([same, apart], weights=weights)
    assert both[0].tolist() == same[0]
    assert both[1] == pytest.approx(weights)


@pytest.mark.parametrize("by_probability", [False, True])
def test_many_questions_take_little_memory(by_probability):
    generator = np.random.default_rng(0)
    n_questions = 20_000
    labels = generator.integers(5, size=(n_questions, 30))
    log_probs = -generator.exponential(size=(n_questions, 30))
    agents = np.repeat([0, 1, 2], 10)

    tracemalloc.start()
    rows = cluster_distributions(labels, agents, log_probs=log_probs if by_probability else None)
    collaborative_entropy(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / n_questions < 1000  # bytes a question, whose labels are 240
