import math

import numpy as np
import pytest
from hypothesis import given, settings

from coe_agents.uncertainty import (
    answer_surprisal,
    collaborative_entropy,
    ensemble_mean,
    leading_cluster,
    leading_clusters,
)
from tests.uncertainty.strategies import groups


def test_by_hand():
    distributions = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    # mean (3/4, 1/4, 0)
    assert leading_cluster(distributions) == 0
    assert answer_surprisal(distributions) == pytest.approx(math.log(4 / 3))
    assert answer_surprisal(distributions, cluster=1) == pytest.approx(math.log(4))
    assert answer_surprisal(distributions, cluster=2) == math.inf
    assert answer_surprisal(distributions, weights=[1.0, 0.0], cluster=1) == pytest.approx(math.log(2))


def test_consensus_has_no_surprise():
    surprisal = answer_surprisal([[0.0, 1.0]] * 3)
    assert (surprisal, math.copysign(1.0, surprisal)) == (0.0, 1.0)


def test_ties_go_to_the_first_cluster_whatever_rounding_says():
    # the first two means are 1.1 / 3, but (0.1 + 0.2 + 0.8) / 3 rounds above (0.6 + 0.3 + 0.2) / 3
    distributions = np.array([[0.6, 0.1, 0.3], [0.3, 0.2, 0.5], [0.2, 0.8, 0.0]])
    assert ensemble_mean(distributions)[1] > ensemble_mean(distributions)[0]
    assert leading_cluster(distributions) == leading_cluster(distributions[:, [1, 0, 2]]) == 0


def test_weights_break_a_tie():
    distributions = [[0.25, 0.75], [0.75, 0.25]]
    assert leading_clusters(distributions).tolist() == [True, True]
    # 0.6 * 0.75 + 0.4 * 0.25
    assert leading_clusters(distributions, weights=[0.6, 0.4]).tolist() == [False, True]
    assert leading_cluster(distributions, weights=[0.6, 0.4]) == 1
    assert type(leading_cluster(distributions)) is int


def test_only_means_that_are_closer_than_the_tolerance_tie():
    assert leading_clusters([[0.5, 0.5 - 0.9e-9, 0.9e-9]]).tolist() == [True, True, False]
    second = 0.5 - 1e-9
    assert leading_clusters([[0.5, second, 1.0 - (0.5 + second)]]).tolist() == [True, False, False]


def test_batch():
    distributions = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]]
    assert leading_cluster(distributions).tolist() == [0, 1]
    assert answer_surprisal(distributions) == pytest.approx([0.0, math.log(4 / 3)])
    assert answer_surprisal(distributions, cluster=[0, 0]) == pytest.approx([0.0, math.log(4)])
    assert answer_surprisal(distributions, cluster=0) == pytest.approx([0.0, math.log(4)])


@given(groups())
@settings(max_examples=40)
def test_coe_is_the_mean_surprisal(group):
    distributions, _ = group
    mean = ensemble_mean(distributions)
    surprisals = [answer_surprisal(distributions, cluster=c) if mean[c] > 0 else 0.0 for c in range(mean.size)]
    assert collaborative_entropy(distributions).total == pytest.approx(mean @ surprisals, abs=1e-12)
    # the rows sum to 1 within 1e-9 only, and a cluster within 1e-9 of the highest may lead
    assert answer_surprisal(distributions) <= math.log(mean.size / mean.sum()) + 1e-8


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (2, ValueError, r'"cluster" must be below "n_clusters", 2; position 0 holds 2'),
        (-1, ValueError, r'"cluster" must be at least 0'),
        (0.0, TypeError, r'"cluster" must hold integers'),
        ([0, 0], ValueError, r"one cluster for each question, shape \(\); got \(2,\)"),
    ],
)
def test_refuses(cluster, error, message):
    with pytest.raises(error, match=message):
        answer_surprisal([[0.5, 0.5]], cluster=cluster)
