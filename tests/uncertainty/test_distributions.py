import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coe_agents.uncertainty import cluster_distributions


def test_frequencies_and_log_probabilities_by_hand():
    # agent 0 said 0, 0, 2, agent 1 said 1
    expected = np.array([[2 / 3, 0.0, 1 / 3], [0.0, 1.0, 0.0]])
    assert cluster_distributions([0, 1, 0, 2], [0, 1, 0, 0]) == pytest.approx(expected)
    # exp(-5000) is 0 in doubles; 1 : e^-1 all the same
    distributions = cluster_distributions(
        [0, 1, 1], [0, 0, 1], log_probs=[-5000.0, -5001.0, -9000.0]
    )
    assert distributions[0, 0] == pytest.approx(1 / (1 + math.exp(-1)))
    assert distributions[1].tolist() == [0.0, 1.0]
    in_turns = cluster_distributions([0, 0, 1], [0, 1, 0], log_probs=[-5000.0, 0.0, -5000.0])
    assert in_turns.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert cluster_distributions([0, 1], [0, 0], log_probs=[-1.0, -math.inf]).tolist() == [
        [1.0, 0.0]
    ]
    logs = np.log([0.75, 0.25])
    both = cluster_distributions([[0, 1], [1, 0]], [0, 0], log_probs=logs)
    assert both == pytest.approx(np.array([[[0.75, 0.25]], [[0.25, 0.75]]]))


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=15)
def test_batch_equals_single(seed, weighted):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, (2, 3, 7))
    agents = np.array([0, 0, 0, 1, 1, 2, 2])
    logs = generator.normal(-50, 20, labels.shape) if weighted else None
    batch = cluster_distributions(labels, agents, log_probs=logs, n_clusters=4)
    assert batch.shape == (2, 3, 3, 4)
    assert batch.sum(axis=-1) == pytest.approx(1.0, abs=1e-12)
    for index in np.ndindex(2, 3):
        own = None if logs is None else logs[index]
        single = cluster_distributions(labels[index], agents, log_probs=own, n_clusters=4)
        assert batch[index] == pytest.approx(single, abs=1e-15)


THREE = [0, 1, 0], [0, 0, 1]


@pytest.mark.parametrize(
    ("labels", "agents", "options", "message"),
    [
        ([0, 0], [0, -1], {}, r'every value of "agents" must be at least 0'),
        ([0, 1], [0, 2], {}, r"every agent must have at least one response; got none from agent 1"),
        (
            [0, 1],
            [0, 1],
            {"n_agents": 3},
            r"every agent must have at least one response; got none from agent 2",
        ),
        ([0], [2], {"n_agents": 1}, r'"agents" must be below "n_agents", 1; position 0 holds 2'),
        (
            [0, 3],
            [0, 0],
            {"n_clusters": 3},
            r'"labels" must be below "n_clusters", 3; position 1 holds 3',
        ),
        ([0], [0], {"n_agents": 0}, '"n_agents" must be an integer of at least 1; got 0'),
        ([0], [0], {"n_clusters": 0}, '"n_clusters" must be an integer of at least 1; got 0'),
        ([], [], {}, r'"labels" must not be empty'),
        ([0, 1], [0], {}, r"got shapes \(2,\) and \(1,\)"),
        ([[0, 1]], [[0, 0]], {}, r"which has one dimension; got shapes"),
        (0, [0], {}, r"got shapes \(\) and \(1,\)"),
        (
            *THREE,
            {"log_probs": [-1.0, math.nan, -1.0]},
            r'"log_probs" must be finite or -inf; agent 0 has nan at',
        ),
        (
            [[0, 0]],
            [0, 1],
            {"log_probs": [[-1.0, math.inf]]},
            r"agent 1 has inf at position \(0, 1\)",
        ),
        (
            *THREE,
            {"log_probs": [-1.0, -1.0, -math.inf]},
            r"all of agent 1's are -inf. Pass one constant",
        ),
        (*THREE, {"log_probs": [[-1.0, -1.0, -1.0]]}, r"got \(1, 3\)"),
        (*THREE, {"log_probs": -1.0}, r"got \(\)"),
        (
            [[0], [0]],
            [0],
            {"log_probs": [[-1.0], [-math.inf]]},
            r"all of agent 0's are -inf in question 1",
        ),
    ],
)
def test_refuses(labels, agents, options, message):
    with pytest.raises(ValueError, match=message):
        cluster_distributions(labels, agents, **options)
