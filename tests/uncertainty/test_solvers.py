import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import semantic_entropy, solvers
from coe_agents.uncertainty.solvers import greedy_step, softmax_step, solver_named
from tests.uncertainty.strategies import groups, row


def test_greedy_takes_the_highest():
    distributions = np.array([[0.2, 0.4, 0.4], [0.1, 0.2, 0.7]])
    stepped = greedy_step(distributions)
    assert stepped.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]

    # sums of responses may differ by rounding
    tenths = np.array([[0.1 + 0.2, 0.3, 0.4 - 1e-10, 0.4]])
    assert greedy_step(tenths).tolist() == [[0.0, 0.0, 0.5, 0.5]]


@pytest.mark.parametrize("step", [greedy_step, softmax_step])
@given(data=st.data())
@settings(max_examples=5)
def test_the_order_of_clusters_and_agents_changes_nothing(step, data):
    distributions, _ = data.draw(groups(min_agents=2, min_clusters=2))
    n_agents, n_clusters = distributions.shape
    agents = data.draw(st.permutations(range(n_agents)))
    clusters = data.draw(st.permutations(range(n_clusters)))
    moved_step = step(distributions)[agents][:, clusters]
    step_of_moved = step(distributions[agents][:, clusters])
    assert step_of_moved == pytest.approx(moved_step, abs=1e-12)


@pytest.mark.parametrize("step", [greedy_step, softmax_step])
def test_a_tie_stays_a_tie(step):
    [(first, _, last)] = step(np.array([[0.4, 0.2, 0.4]]))
    assert first == last
    assert first > 0.4
    for still in ([1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]):
        [stepped] = softmax_step(np.array([still]))
        assert stepped.tolist() == pytest.approx(still, abs=1e-16)


def test_softmax_step_goes_down_the_gradient():
    row_ = np.array([0.5, 0.3, 0.2])
    small = 1e-6
    [moved] = softmax_step(row_[None], step_size=small)

    def entropy_of_logits(z):
        p = np.exp(z) / np.exp(z).sum()
        return -(p * np.log(p)).sum()

    # the natural gradient v solves (diag p - p p^T) v = dSE/dz; dSE/dz by central differences
    z = np.log(row_)
    gradient = []
    for h in np.eye(3) * 1e-5:
        difference = entropy_of_logits(z + h) - entropy_of_logits(z - h)
        gradient.append(difference / 2e-5)
    fisher = np.diag(row_) - np.outer(row_, row_)
    velocity = (np.log(moved) - np.log(row_)) / small
    assert fisher @ velocity == pytest.approx(-np.array(gradient), abs=1e-5)


@given(st.lists(row(4), min_size=1, max_size=3).map(np.array), st.floats(0.01, 3.0))
@settings(max_examples=30)
def test_softmax_never_raises_entropy_and_keeps_zeros(distributions, step_size):
    stepped = softmax_step(distributions, step_size=step_size)
    before = semantic_entropy(distributions)
    after = semantic_entropy(stepped)
    assert (after <= before + 1e-12).all()
    was_zero = distributions == 0.0
    assert (stepped[was_zero] == 0.0).all()
    assert stepped.sum(axis=1) == pytest.approx(1.0)


def test_unknown_names():
    assert solver_named(f"{solvers.__name__}:softmax_step") is softmax_step
    with pytest.raises(ValueError, match=r'one of "greedy", "softmax".* or pass a callable$'):
        solver_named("annealing")
    with pytest.raises(ValueError, match='"solver" must not be "genetic", which was removed'):
        solver_named("genetic")
    with pytest.raises(ValueError, match=r"got 'sofmax'\. Did you mean \"softmax\""):
        solver_named("sofmax")
    with pytest.raises(ValueError, match=r'written as the "package.module:name" it stood for'):
        solver_named("annealing")
