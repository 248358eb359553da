import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import semantic_entropy, solvers
from coe_agents.uncertainty.solvers import genetic_step, greedy_step, softmax_step, solver_named
from tests.uncertainty.strategies import groups, row


def test_greedy_takes_the_highest_and_a_step_that_would_be_less_sure_is_not_taken():
    assert greedy_step(np.array([[0.2, 0.4, 0.4], [0.1, 0.2, 0.7]])).tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    tenths = np.array([[0.1 + 0.2, 0.3, 0.4 - 1e-10, 0.4]])  # sums of responses may differ by rounding
    assert greedy_step(tenths).tolist() == [[0.0, 0.0, 0.5, 0.5]]
    distributions = np.array([[0.9, 0.1]])
    stepped = solvers.within_trust_region(distributions, lambda _, n: np.full(n, math.log(9.0)))
    assert stepped.tolist() == distributions.tolist()


@pytest.mark.parametrize("step", [greedy_step, softmax_step, genetic_step])
@given(data=st.data())
@settings(max_examples=5)
def test_the_order_of_clusters_and_agents_changes_nothing(step, data):
    distributions, _ = data.draw(groups(min_agents=2, min_clusters=2))
    agents = data.draw(st.permutations(range(distributions.shape[0])))
    clusters = data.draw(st.permutations(range(distributions.shape[1])))
    moved = step(distributions)[agents][:, clusters]
    assert step(distributions[agents][:, clusters]) == pytest.approx(moved, abs=1e-12)


@pytest.mark.parametrize("step", [greedy_step, softmax_step, genetic_step])
def test_a_tie_stays_a_tie(step):
    stepped = step(np.array([[0.4, 0.2, 0.4]]))[0]
    assert stepped[0] == stepped[2] > 0.4
    for still in ([1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]):
        assert softmax_step(np.array([still])).tolist() == [pytest.approx(still, abs=1e-16)]


def test_softmax_step_goes_down_the_gradient():
    row_ = np.array([0.5, 0.3, 0.2])
    small = 1e-6
    moved = softmax_step(row_[None], step_size=small)[0]

    def entropy_of_logits(z):
        p = np.exp(z) / np.exp(z).sum()
        return -(p * np.log(p)).sum()

    # the natural gradient v solves (diag p - p p^T) v = dSE/dz; dSE/dz by central differences
    z = np.log(row_)
    gradient = [(entropy_of_logits(z + h) - entropy_of_logits(z - h)) / 2e-5 for h in np.eye(3) * 1e-5]
    fisher = np.diag(row_) - np.outer(row_, row_)
    velocity = (np.log(moved) - np.log(row_)) / small
    assert fisher @ velocity == pytest.approx(-np.array(gradient), abs=1e-5)


@given(st.lists(row(4), min_size=1, max_size=3).map(np.array), st.floats(0.01, 3.0))
@settings(max_examples=30)
def test_softmax_never_raises_entropy_and_keeps_zeros(distributions, step_size):
    stepped = softmax_step(distributions, step_size=step_size)
    assert (semantic_entropy(stepped) <= semantic_entropy(distributions) + 1e-12).all()
    assert (stepped[distributions == 0.0] == 0.0).all()
    assert stepped.sum(axis=1) == pytest.approx(1.0)


@given(groups())
@settings(max_examples=4)
def test_genetic_never_raises_entropy_and_keeps_zeros(group):
    distributions, _ = group
    stepped = genetic_step(distributions)
    assert (semantic_entropy(stepped) <= semantic_entropy(distributions) + 1e-12).all()
    assert (stepped[distributions == 0.0] == 0.0).all()
    assert np.array_equal(stepped, genetic_step(distributions))


def test_genetic_moves_inside_its_trust_region():
    before = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    after = genetic_step(before)
    odds_before, odds_after = np.log(before[0, 0] / before[0, 1:]), np.log(after[0, 0] / after[0, 1:])
    assert (odds_after - odds_before <= solvers.TRUST_RADIUS + 1e-9).all()
    assert (odds_after - odds_before > 1.0).all()
    assert after[0].tolist() == after[1].tolist()
    sharper = genetic_step(np.array([[1.0, 0.0], [0.6, 0.4]]))  # a certain row does not stop those after it
    assert sharper[0].tolist() == [1.0, 0.0]
    assert sharper[1, 0] > 0.7


@pytest.mark.parametrize(
    ("row_", "expected"),
    [
        ([0.7, 0.2, 0.1], 2),
        ([0.7, 0.3, 0.0], 1),  # what has no mass does not move
        ([0.4, 0.4 - 1e-10, 0.2], 1),  # closer than 1e-9 move together
        ([1.0 - 3e-9, 2e-9, 1e-9], 2),  # not closer
    ],
)
def test_each_probability_but_the_highest_is_a_dimension(row_, expected):
    found = []
    solvers.within_trust_region(np.array([row_]), lambda _, n: found.append(n) or np.zeros(n))
    assert found == [expected]


def test_unknown_names():
    assert solver_named(f"{solvers.__name__}:softmax_step") is softmax_step
    with pytest.raises(ValueError, match=r'one of "greedy", "softmax", "genetic", "bayesian", pass a callable$'):
        solver_named("annealing")
    with pytest.raises(ValueError, match=r"got 'sofmax'\. Did you mean \"softmax\""):
        solver_named("sofmax")
    with pytest.raises(ValueError, match=r'written as the "package.module:name" it stood for'):
        solver_named("annealing")
