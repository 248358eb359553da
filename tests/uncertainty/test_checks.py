import math
import re
from functools import partial

import numpy as np
import pytest

from coe_agents.uncertainty import _checks

LABELS = partial(_checks.integers, name="labels", upper=3, upper_name="n_clusters")
ROWS = partial(_checks.rows, name="p", min_ndim=1)
AGENT_ROWS = partial(_checks.rows, name="p", min_ndim=2)
WEIGHTS = partial(_checks.weights, shape=(2, 3))
MANY_WEIGHTS = partial(_checks.weights, shape=(3, 2, 4))
METRIC = partial(_checks.ground_metric, n_clusters=2)


@pytest.mark.parametrize(
    ("check", "value", "error", "message"),
    [
        (
            LABELS,
            [0, 3, 4],
            ValueError,
            'below "n_clusters", 3; position 1 holds 3. Number from 0, or raise',
        ),
        (
            LABELS,
            [0, -1, -2],
            ValueError,
            "position 1 holds -1. Number from 0, and omit responses without a number",
        ),
        (LABELS, [0.0], TypeError, '"labels" must hold integers; got float64. Number from 0'),
        (
            ROWS,
            1.0,
            ValueError,
            "shape (..., n_clusters); got shape (). For one agent, pass its row",
        ),
        (
            AGENT_ROWS,
            [1.0],
            ValueError,
            "shape (..., n_agents, n_clusters); got shape (1,). For one agent, pass [row]",
        ),
        (
            ROWS,
            [1.0, -0.5, 0.5],
            ValueError,
            '"p" must be at least 0; it holds -0.5. Pass probabilities, not log-prob',
        ),
        (
            ROWS,
            [[1.0, 0.0], [2.0, -1.0]],
            ValueError,
            '"p" must be at least 0; row 1 holds -1. Pass',
        ),
        (
            ROWS,
            [math.inf, -math.inf],
            ValueError,
            '"p" must be a finite number; it holds inf. Pass',
        ),
        (
            ROWS,
            [0.5, 0.5 - 1.1e-6],
            ValueError,
            '"p" must sum to 1; got a sum of 0.9999989. To turn cluster labels',
        ),
        (
            ROWS,
            [[1.0], [0.5]],
            ValueError,
            'every row of "p" must sum to 1; row 1 sums to 0.5. To turn cluster labels',
        ),
        (
            WEIGHTS,
            [0.5],
            ValueError,
            "got shape (1,). Omit the weights of agents that gave no responses and renorm",
        ),
        (WEIGHTS, ["a"], TypeError, '"weights" must hold real numbers; got <U1'),
        (
            MANY_WEIGHTS,
            [[0.5, 0.5]] * 2,
            ValueError,
            'each of the 2 agents of "distributions"; got shape (2, 2)',
        ),
        (
            WEIGHTS,
            [0.5, 0.6],
            ValueError,
            '"weights" must sum to 1; got a sum of 1.1. Divide them by their sum',
        ),
        (
            METRIC,
            [[0.0]],
            ValueError,
            "one row and column per cluster; got shape (1, 1). Pass the distance",
        ),
        (
            METRIC,
            [[0, math.inf]] * 2,
            ValueError,
            "finite numbers; entry (0, 1) is inf. Cap distances that are not",
        ),
        (
            METRIC,
            [[0, -1], [-1, 0]],
            ValueError,
            "not be negative; entry (0, 1) is -1. Pass distances, not simil",
        ),
        (
            METRIC,
            [[0, 1], [1, 2]],
            ValueError,
            "a zero diagonal; entry (1, 1) is 2. Pass distances, not similarities",
        ),
        (METRIC, [[0, 1], [1 + 2e-9, 0]], ValueError, "be symmetric"),
    ],
)
def test_an_error_says_what_must_hold_where_what_it_got_and_what_to_do(
    check, value, error, message
):
    with pytest.raises(error, match=re.escape(message)):
        check(value)


def test_what_is_on_a_bound_passes_rounding_of_a_sum_is_divided_out_and_a_place_is_named_by_its_indices():
    assert LABELS([0, 2]).tolist() == [0, 2]
    assert LABELS(np.array([2], dtype=np.uint8)).dtype == np.int64
    assert METRIC([[0.0, 1.0], [1.0 + 9e-10, 0.0]]).shape == (2, 2)
    assert METRIC([[0.0, 1e-9], [0.0, 0.0]]).shape == (2, 2)
    assert METRIC([[0.0, 0.0], [0.0, 0.0]]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    # 0.5 + 0.5 - 9e-7
    assert ROWS([0.5, 0.5 - 9e-7]).sum() == 1.0
    assert ROWS([[0.5, 0.5], [0.5, 0.5 + 9e-7]]).sum(axis=1).tolist() == [1.0, 1.0]
    assert WEIGHTS(None).tolist() == [0.5, 0.5]
    for check, each in (
        (WEIGHTS, [1, 0]),
        (MANY_WEIGHTS, [1, 0]),
        (MANY_WEIGHTS, [[1, 0], [0.5, 0.5], [0.25, 0.75]]),
    ):
        assert check(each).tolist() == each
    assert _checks.place([False, True, True], "row") == "row 1"
    assert _checks.place([[False, False], [False, True]], "row") == "row (1, 1)"
    assert _checks.place(True, "row") == "row 0"
