import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.types import Regime
from coe_agents.uncertainty import collaborative_entropy, entropy, regime
from coe_agents.uncertainty.regimes import epistemic_scale

THRESHOLDS = {"aleatoric_threshold": 0.5, "epistemic_threshold": 0.3}


@pytest.mark.parametrize(
    ("aleatoric", "epistemic", "name"),
    [
        (0.0, 0.0, "consensus"),
        (0.0, 0.6, "conflict"),
        (0.6, 0.0, "ambiguous"),
        (0.6, 0.6, "unknown"),
        (0.5, 0.3, "consensus"),  # on a threshold is low
        (0.5, 0.3 + 1e-12, "conflict"),
        (np.float64(0.6), np.float32(0.3), "unknown"),  # 0.3 in single precision is 0.3000000119
    ],
)
def test_quadrants(aleatoric, epistemic, name):
    assert regime(aleatoric, epistemic, **THRESHOLDS) == name
    assert name in get_args(Regime)
    assert regime(9.0, 9.0, aleatoric_threshold=math.inf, epistemic_threshold=0.3) == "conflict"  # always low


@pytest.mark.parametrize("name", ["aleatoric", "epistemic", "aleatoric_threshold", "epistemic_threshold"])
def test_refuses(name):
    for value, error, message in ((-0.1, ValueError, "-0.1. Pass nats, such as 0.5$"), ([0.1], TypeError, r"\[0.1")):
        arguments = {"aleatoric": 0.1, "epistemic": 0.1, **THRESHOLDS, name: value}
        with pytest.raises(error, match=f'^"{name}" must be a number of at least 0; got {message}'):
            regime(arguments.pop("aleatoric"), arguments.pop("epistemic"), **arguments)


DIVERGENCES = ("kl", "js", "hellinger", "total_variation", "wasserstein")


def splits(n_agents, most=None):
    """Every way to split so many agents over answers, as the sizes of the camps, falling."""
    most = n_agents if most is None else most
    if n_agents == 0:
        yield ()
    for size in range(min(n_agents, most), 0, -1):
        for rest in splits(n_agents - size, size):
            yield (size, *rest)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("n_agents", range(2, 7))
def test_sure_agents_are_a_consensus_only_where_all_agree(divergence, n_agents):
    scale = epistemic_scale(np.full(n_agents, 1 / n_agents), divergence)
    named = {}
    for sizes in splits(n_agents):
        rows = np.eye(len(sizes))[np.repeat(np.arange(len(sizes)), sizes)]
        found = collaborative_entropy(rows, divergence=divergence)
        named[sizes] = regime(found.aleatoric, scale * found.epistemic, **THRESHOLDS)
    assert len(named) == {2: 2, 3: 3, 4: 5, 5: 7, 6: 11}[n_agents]  # the partitions of the number
    assert named.pop((n_agents,)) == "consensus"
    assert set(named.values()) == {"conflict"}


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.sampled_from(DIVERGENCES))
def test_scaled_full_dispute_is_the_entropy_of_the_weights(masses, divergence):
    weights = np.array(masses) / sum(masses)
    found = collaborative_entropy(np.eye(len(masses)), weights=weights, divergence=divergence).epistemic
    assert epistemic_scale(weights, divergence) * found == pytest.approx(entropy(weights), abs=1e-9)
    # an agent that is not trusted changes nothing
    assert epistemic_scale(np.array([*weights, 0.0]), divergence) == pytest.approx(epistemic_scale(weights, divergence))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_where_nobody_can_disagree_the_scale_is_1(divergence):
    assert epistemic_scale(np.array([1.0]), divergence) == epistemic_scale(np.array([0.0, 1.0]), divergence) == 1.0
