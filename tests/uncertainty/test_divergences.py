import math

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.errors import CoEError
from coe_agents.uncertainty import (
    collaborative_entropy,
    hellinger_distance,
    jensen_shannon_divergence,
    kl_divergence,
    wasserstein_distance,
)
from tests.uncertainty.strategies import row

LOG_2 = math.log(2)
ALL = [kl_divergence, jensen_shannon_divergence, hellinger_distance, wasserstein_distance]
pairs = st.tuples(row(4), row(4))


def test_by_hand():
    p = [0.5, 0.5]
    q = [0.75, 0.25]
    # 1/2 log(2/3) + 1/2 log 2 = 1/2 log(4/3)
    assert kl_divergence(p, q) == pytest.approx(math.log(4 / 3) / 2, abs=1e-15)
    # m = (5/8, 3/8)
    to_m = (
        0.5 * math.log(4 / 5)
        + 0.5 * math.log(4 / 3)
        + 0.75 * math.log(6 / 5)
        + 0.25 * math.log(2 / 3)
    )
    assert jensen_shannon_divergence(p, q) == pytest.approx(to_m / 2, abs=1e-15)
    # 1 - sum sqrt(p q)
    overlap = math.sqrt(0.375) + math.sqrt(0.125)
    assert hellinger_distance(p, q) == pytest.approx(math.sqrt(1 - overlap), abs=1e-12)
    # (1/4 + 1/4) / 2
    assert wasserstein_distance(p, q) == pytest.approx(0.25)


@given(st.sampled_from(ALL), pairs)
@settings(max_examples=50)
def test_zero_on_equal_rows_and_never_negative(measure, pair):
    p, q = pair
    assert measure(p, p) == 0.0
    assert measure(p, q) >= 0.0
    permuted = measure(p[::-1], q[::-1])
    assert permuted == pytest.approx(measure(p, q), abs=1e-12)


@given(pairs)
@settings(max_examples=30)
def test_oracles(pair):
    # scipy's mean of 0 and the smallest number is 0, which makes its divergence infinite; ours is 0 there
    p, q = (np.where(drawn < 1e-300, 0.0, drawn) for drawn in pair)
    with np.errstate(all="ignore"):
        kl = scipy.stats.entropy(p, q)
        js = scipy.spatial.distance.jensenshannon(p, q) ** 2
    assert kl_divergence(p, q) == pytest.approx(kl, abs=1e-12)
    assert jensen_shannon_divergence(p, q) == pytest.approx(js, abs=1e-12)
    assert jensen_shannon_divergence(p, q) <= LOG_2 + 1e-12


@given(pairs)
@settings(max_examples=15)
def test_clusters_on_a_line(pair):
    x = np.array([0.0, 0.3, 2.0, 2.5])
    exact = scipy.stats.wasserstein_distance(x, x, *pair)
    assert wasserstein_distance(*pair, ground_metric=np.abs(x[:, None] - x)) == pytest.approx(
        exact, abs=1e-6
    )


def test_transport_may_shift_through_a_cluster_and_a_ground_metric_goes_with_wasserstein_only():
    # moving 1/2 from a to b and 1/2 from b to c costs 1; leaving b alone and moving a to c would cost 5
    ground = [[0.0, 1.0, 10.0], [1.0, 0.0, 1.0], [10.0, 1.0, 0.0]]
    rows = [
        [0.5, 0.5, 0.0],
        [0.0, 0.5, 0.5],
    ]  # to their mean, (1/4, 1/2, 1/4), each shifts half as much
    assert wasserstein_distance(rows, rows[1], ground_metric=ground) == pytest.approx([1.0, 0.0])
    assert collaborative_entropy(
        rows, divergence="wasserstein", ground_metric=ground
    ).epistemic == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"with divergence \"wasserstein\"; got 'js'\. Omit it"):
        collaborative_entropy([[1.0, 0.0]], divergence="js", ground_metric=1 - np.eye(2))


def test_rounding_makes_no_negative_divergence_and_the_smallest_probability_overflows_nothing():
    # 8/19, 6/19, 5/19 and neighbouring doubles: the terms sum to -8e-17
    p = np.array([8, 6, 5]) / 19
    q = [0.4210526315789474, 0.31578947368421045, 0.26315789473684215]
    assert kl_divergence(p, q) == 0.0
    smallest = [5e-324, 1.0]
    assert jensen_shannon_divergence(smallest, [0.0, 1.0]) == 0.0
    assert kl_divergence(smallest, [0.0, 1.0]) == math.inf
    # log(1 / 5e-324) = 1074 log 2, though 1 / 5e-324 is no double
    assert kl_divergence([1.0, 0.0], smallest) == pytest.approx(1074 * LOG_2)


@pytest.mark.parametrize("measure", ALL)
def test_batch_broadcasts_and_equals_single(measure):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), (4, 2))
    q = generator.dirichlet(np.ones(3), (4, 1))
    expected = [[measure(p[i, j], q[i, 0]) for j in range(2)] for i in range(4)]
    assert measure(p, q) == pytest.approx(np.array(expected), abs=1e-12)
    assert isinstance(measure(p[0, 0], q[0, 0]), float)


@pytest.mark.parametrize("measure", ALL)
def test_refuses(measure):
    with pytest.raises(ValueError, match=r'"p" must sum to 1; got a sum of 0\.9'):
        measure([0.5, 0.4], [0.5, 0.5])
    for p, q in (([0.5, 0.5], [1.0]), ([[1.0]] * 2, [[1.0]] * 3)):
        with pytest.raises(
            ValueError, match=r"must be over the same clusters; got shapes \(2, ?1?\) and \([13],"
        ):
            measure(p, q)


def test_unsolved_transport_is_an_error(monkeypatch):
    failed = type("Solution", (), {"status": 4, "message": "numerical difficulties"})
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: failed)
    with pytest.raises(CoEError, match="could not be computed: numerical difficulties"):
        wasserstein_distance([0.5, 0.5], [1.0, 0.0], ground_metric=[[0.0, 1.0], [1.0, 0.0]])


def test_a_function_of_ones_own_was_removed_and_says_what_is_in_its_place():
    with pytest.raises(
        TypeError, match=r"one of kl, js, .*; got a function\. .* removed: sum the weighted values"
    ):
        collaborative_entropy([[1.0, 0.0]], divergence=kl_divergence)
