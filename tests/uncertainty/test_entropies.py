import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings

from coe_agents.uncertainty import entropy, miller_madow_correction, renyi_entropy, semantic_entropy
from tests.uncertainty.strategies import row

LOG_2 = math.log(2)


def test_by_hand():
    # 1/2 log 2 + 2 * 1/4 log 4 = (1/2 + 1) log 2
    assert entropy([0.5, 0.25, 0.25]) == pytest.approx(1.5 * LOG_2, abs=1e-15)
    assert isinstance(entropy([0.5, 0.5]), float)


def test_certainty_is_positive_zero():
    certain = entropy([0.0, 1.0, 0.0])
    assert certain == 0.0
    assert math.copysign(1.0, certain) == 1.0
    assert not np.signbit(semantic_entropy([[1.0, 0.0], [0.0, 1.0]])).any()
    # scipy's entr(1.0) is -0.0
    assert math.copysign(1.0, entropy([1.0])) == 1.0
    assert not np.signbit(semantic_entropy([[1.0], [1.0]])).any()


def test_semantic_entropy_is_per_agent():
    assert semantic_entropy([[0.5, 0.5], [1.0, 0.0]]) == pytest.approx([LOG_2, 0.0])
    assert semantic_entropy(np.full((4, 3, 2), 0.5)).shape == (4, 3)


@given(row(5))
@settings(max_examples=50)
def test_range_and_oracle(p):
    value = entropy(p)
    assert 0.0 <= value <= math.log(5) + 1e-12
    assert value == pytest.approx(scipy.stats.entropy(p), abs=1e-12)
    assert value == pytest.approx(entropy(p[::-1]), abs=1e-12)


def test_batch_equals_single():
    p = np.random.default_rng(0).dirichlet(np.ones(4), (3, 2))
    assert entropy(p) == pytest.approx(np.array([[entropy(one) for one in two] for two in p]), abs=1e-15)


def test_rounding_in_the_sum_is_divided_out():
    # -p log p of 1.0000005 would be negative
    assert entropy([1.0000005, 0.0]) == 0.0
    assert semantic_entropy([[1 / 3 + 3e-7] * 3])[0] <= math.log(3)


def test_single_precision_and_integers_pass():
    assert entropy(np.full(7, 1 / 7, dtype=np.float32)) == pytest.approx(math.log(7))
    assert entropy([1, 0]) == 0.0


@pytest.mark.parametrize(
    ("p", "error", "message"),
    [
        ([0.5, 0.4], ValueError, r'"p" must sum to 1; got a sum of 0.9. To turn .* call "cluster_distributions"'),
        ([[1.0, 0.0], [0.5, 0.6]], ValueError, r'every row of "p" must sum to 1; row 1 sums to 1.1'),
        ([[[1.0, 0.0], [0.5, 0.6]]], ValueError, r"row \(0, 1\) sums to 1.1"),
        ([1.5, -0.5], ValueError, r'every value of "p" must be at least 0; it holds -0.5. Pass probabilities'),
        ([math.nan, 1.0], ValueError, r'every value of "p" must be a finite number; it holds nan'),
        ([math.inf, 1.0], ValueError, r"must be a finite number; it holds inf"),
        ([[1.0, 0.0], [math.inf, -math.inf]], ValueError, r"must be a finite number; row 1 holds inf"),
        ([], ValueError, r'"p" must not be empty; got shape \(0,\)'),
        (1.0, ValueError, r'"p" must have shape \(..., n_clusters\); got shape \(\)'),
        (["0.5", "0.5"], TypeError, r'"p" must hold real numbers; got <U3'),
        ([None, 1.0], TypeError, r"must hold real numbers; got object"),
        ([1.0 + 0j], TypeError, r"must hold real numbers; got complex128"),
        ([[1.0], [0.5, 0.5]], ValueError, r"got rows of different lengths"),
    ],
)
def test_refuses(p, error, message):
    with pytest.raises(error, match=message):
        entropy(p)


def test_semantic_entropy_of_one_row_is_a_float():
    assert semantic_entropy([0.5, 0.5]) == pytest.approx(LOG_2)
    assert isinstance(semantic_entropy([0.5, 0.5]), float)


def test_semantic_entropy_refuses():
    with pytest.raises(ValueError, match=r'every row of "distributions" must sum to 1; row 1 sums to 0\.9'):
        semantic_entropy([[0.5, 0.5], [0.5, 0.4]])


def test_miller_madow_by_hand():
    # (3 - 1) / (2 * 5), (1 - 1) / (2 * 5)
    assert miller_madow_correction([3, 1], 5) == pytest.approx([0.2, 0.0])
    # each response in a cluster of its own: (5 - 1) / (2 * 5)
    assert miller_madow_correction(5, 5) == 0.4


def test_miller_madow_removes_most_of_the_bias():
    p, n = np.array([0.5, 0.3, 0.2]), 20
    counts = np.random.default_rng(0).multinomial(n, p, size=4000)
    plug_in = semantic_entropy(counts / n)
    bias = plug_in.mean() - entropy(p)
    # first order: -(3 - 1) / (2 * 20) = -0.05
    assert bias == pytest.approx(-0.05, abs=0.01)
    assert abs((plug_in + miller_madow_correction((counts > 0).sum(1), n)).mean() - entropy(p)) < abs(bias) / 4


@pytest.mark.parametrize(
    ("m", "n", "error", "message"),
    [
        (0, 5, ValueError, '"n_observed_clusters" must be at least 1'),
        (6, 5, ValueError, 'at most "n_responses"; got 6'),
        (1.5, 5, TypeError, '"n_observed_clusters" must hold integers; got float64'),
        (1, 5.0, TypeError, '"n_responses" must hold integers; got float64'),
    ],
)
def test_miller_madow_refuses(m, n, error, message):
    with pytest.raises(error, match=message):
        miller_madow_correction(m, n)


def test_renyi_by_hand():
    p = [0.5, 0.25, 0.25]
    # 1/8 + 1/64 + 1/64 = 10/64, and 1 - 3 = -2
    assert renyi_entropy(p) == pytest.approx(math.log(6.4) / 2, abs=1e-15)
    # 1/4 + 1/16 + 1/16 = 3/8
    assert renyi_entropy(p, order=2) == pytest.approx(math.log(8 / 3), abs=1e-15)
    # (sqrt(1/2) + 1/2 + 1/2)^2
    assert renyi_entropy(p, order=0.5) == pytest.approx(2 * math.log(math.sqrt(0.5) + 1), abs=1e-15)
    assert isinstance(renyi_entropy(p), float)


def test_renyi_takes_the_limits():
    p = [0.5, 0.25, 0.25, 0.0]
    assert renyi_entropy(p, order=1) == entropy(p)
    assert renyi_entropy(p, order=math.inf) == pytest.approx(LOG_2)
    assert renyi_entropy(p, order=0) == pytest.approx(math.log(3))
    assert renyi_entropy(p, order=1 + 1e-6) == pytest.approx(entropy(p), abs=1e-6)
    assert renyi_entropy(p, order=1e300) == pytest.approx(LOG_2)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, 700, math.inf])
def test_renyi_of_certain_and_of_uniform(order):
    certain = renyi_entropy([[0.0, 1.0], [1.0, 0.0]], order=order)
    assert certain.tolist() == [0.0, 0.0]
    assert not np.signbit(certain).any()
    assert renyi_entropy(np.full((2, 3, 5), 0.2), order=order) == pytest.approx(np.full((2, 3), math.log(5)))


@pytest.mark.parametrize("order", [0.3, 3, 7])
def test_rounding_takes_renyi_out_of_no_bound(order):
    # unclipped, order 3 falls below the min-entropy at 2, 3, 5 and 7 outcomes, orders 0.3 and 7 rise above log n
    for n in range(2, 11):
        uniform = np.full(n, 1 / n)
        assert renyi_entropy(uniform, order=math.inf) <= renyi_entropy(uniform, order=order) <= math.log(n)


@given(row(5))
@settings(max_examples=50)
def test_renyi_never_rises_with_the_order(p):
    values = [renyi_entropy(p, order=order) for order in (0, 0.3, 1, 2, 3, 50, math.inf)]
    assert all(value >= lower - 1e-12 for value, lower in pairwise(values))
    assert 0.0 <= values[-1] <= values[0] <= math.log(5) + 1e-12
    assert values[4] == pytest.approx(renyi_entropy(p[::-1], order=3), abs=1e-12)


@pytest.mark.parametrize(
    ("p", "order", "error", "message"),
    [
        ([0.5, 0.4], 3, ValueError, '"p" must sum to 1'),
        ([1.0], -1, ValueError, '"order" must be a number of at least 0; got -1. 1.0 is Shannon\'s entropy'),
        ([1.0], math.nan, ValueError, '"order" must be a number of at least 0; got nan'),
        ([1.0], "2", TypeError, '"order" must be a number of at least 0'),
    ],
)
def test_renyi_refuses(p, order, error, message):
    with pytest.raises(error, match=message):
        renyi_entropy(p, order=order)
