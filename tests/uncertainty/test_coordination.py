import math

import numpy as np
import pytest
from hypothesis import given, settings

from coe_agents.uncertainty import collaborative_entropy, coordinate
from tests.uncertainty.strategies import groups

LOG_2 = math.log(2)
LEANING = [[0.6, 0.4, 0.0], [0.3, 0.5, 0.2]]


def test_greedy_by_hand():
    result = coordinate([[0.6, 0.4], [0.0, 1.0]])
    # initial mean (3/10, 7/10); then deltas on clusters 0 and 1
    initial = 0.3 * math.log(10 / 3) + 0.7 * math.log(10 / 7)
    assert result.distributions.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert result.trajectory == pytest.approx((initial, LOG_2, LOG_2))
    assert result.n_iterations == 2
    assert result.converged is True
    assert result.initial_coe == result.trajectory[0]
    assert result.coe == result.trajectory[-1]
    assert result.coe > result.initial_coe  # the delta step raised it
    torn = coordinate([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]], weights=[0.7, 0.3])  # a tie is not broken
    assert torn.distributions.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    assert torn.weights.tolist() == [0.7, 0.3]


@given(groups())
@settings(max_examples=20)
def test_greedy_never_moves_the_weights_and_ends_at_the_second_iteration(group):
    distributions, weights = group
    result = coordinate(distributions, weights=weights)
    assert result.weights == pytest.approx(weights, abs=1e-15)
    assert result.n_iterations <= 2
    assert result.converged
    assert len(result.trajectory) == result.n_iterations + 1
    assert result.initial_coe == collaborative_entropy(distributions, weights=weights).total


def test_softmax_first_iteration_and_the_factor_of_the_weights_by_hand():
    result = coordinate([[0.36, 0.64], [0.9, 0.1]], solver="softmax", max_iterations=1)
    # p^1.5: (0.216, 0.512) / 0.728 and (0.9^1.5, 0.1^1.5) normalised; factors 1 - SE / log 2
    first = np.array([0.216, 0.512]) / 0.728
    second = np.array([0.9, 0.1]) ** 1.5 / sum(np.array([0.9, 0.1]) ** 1.5)
    factors = np.array([1 + (p * np.log(p)).sum() / LOG_2 for p in (first, second)])
    assert result.distributions == pytest.approx(np.array([first, second]))
    assert result.weights == pytest.approx(factors / factors.sum())
    assert result.coe == collaborative_entropy(result.distributions, weights=result.weights).total
    # 1 - SE / log(3): of (1/2, 1/2, 0), and 1 of the certain row
    given = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    result = coordinate(
        given, solver=lambda rows: rows.sort() or rows, max_iterations=1
    )  # a solver may work in place
    factor = 1 - LOG_2 / math.log(3)
    assert result.weights == pytest.approx([factor / (factor + 1), 1 / (factor + 1)])
    assert (
        given.tolist()
        == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
        == result.distributions[:, ::-1].tolist()
    )


def test_softmax_runs_longer_for_a_smaller_epsilon_and_ten_iterations_by_default():
    rows = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]
    runs = [
        coordinate(rows, solver="softmax", epsilon=10.0**-k, max_iterations=100)
        for k in (2, 4, 6, 12)
    ]
    n_iterations = [run.n_iterations for run in runs]
    assert n_iterations == sorted(set(n_iterations))
    assert n_iterations[-1] < 100
    assert all(run.converged for run in runs)
    by_default = coordinate(rows, solver="softmax", epsilon=1e-12)
    assert by_default.n_iterations == 10
    assert by_default.converged is False
    assert by_default.coe == by_default.trajectory[10] != by_default.trajectory[1]
    changes = np.abs(np.diff(runs[-1].trajectory))
    smallest_so_far = changes[8]
    assert smallest_so_far < changes[:8].min()
    # a change of exactly epsilon does not stop it
    assert (
        coordinate(rows, solver="softmax", epsilon=smallest_so_far * (1 + 1e-9)).n_iterations == 9
    )
    assert coordinate(rows, solver="softmax", epsilon=smallest_so_far).n_iterations == 10
    assert runs[0].trajectory == runs[-1].trajectory[: n_iterations[0] + 1]


@pytest.mark.parametrize("n_clusters", [3, 5])
def test_rounding_becomes_no_weight(n_clusters):
    # 1 - SE / log(n) of a uniform row comes out as 2e-16 for 3 clusters and -2e-16 for 5
    rows = [np.full(n_clusters, 1 / n_clusters), np.eye(n_clusters)[0]]
    assert coordinate(rows, solver="softmax").weights.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("undecided", [[[1 / 3] * 3] * 2, [[1.0], [1.0]]])
def test_weights_stay_where_no_agent_can_be_told_from_another(undecided):
    result = coordinate(undecided, weights=[0.3, 0.7], solver="softmax")
    assert result.weights.tolist() == [0.3, 0.7]
    assert result.n_iterations == 1
    assert result.converged is True


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"solver": lambda p: p * 2},
            ValueError,
            r'row of "solver\(distributions\)" must sum to 1; row 0 sums to 2',
        ),
        (
            {"solver": lambda p: p * math.nan},
            ValueError,
            r"must be a finite number; row 0 holds nan",
        ),
        (
            {"solver": lambda p: p[:1]},
            ValueError,
            r"must return distributions of shape \(2, 3\); got \(1, 3\)",
        ),
        (
            {"solver": "annealing"},
            ValueError,
            r'known name, "package\.module:name" or a callable; got \'annealing\'',
        ),
        ({"solver": 3}, TypeError, '"solver" must be a name or a callable; got 3'),
        (
            {"epsilon": 0.0},
            ValueError,
            '"epsilon" must be a finite number above 0; got 0.0. Pass a small change',
        ),
        (
            {"max_iterations": 0},
            ValueError,
            '"max_iterations" must be an integer of at least 1; got 0',
        ),
        (
            {"distributions": [LEANING]},
            ValueError,
            r"must have shape \(n_agents, n_clusters\); got \(1, 2, 3\). Call",
        ),
    ],
)
def test_refuses(options, error, message):
    with pytest.raises(error, match=message):
        coordinate(**{"distributions": LEANING, **options})
