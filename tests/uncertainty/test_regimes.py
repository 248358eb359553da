import math
from typing import get_args

import numpy as np
import pytest

from coe_agents.types import Regime
from coe_agents.uncertainty import collaborative_entropy, regime

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
    assert (
        regime(9.0, 9.0, aleatoric_threshold=math.inf, epistemic_threshold=0.3) == "conflict"
    )  # always low


@pytest.mark.parametrize(
    "name", ["aleatoric", "epistemic", "aleatoric_threshold", "epistemic_threshold"]
)
def test_refuses(name):
    for value, error, message in (
        (-0.1, ValueError, "-0.1. Pass nats, such as 0.5$"),
        ([0.1], TypeError, r"\[0.1"),
    ):
        arguments = {"aleatoric": 0.1, "epistemic": 0.1, **THRESHOLDS, name: value}
        with pytest.raises(error, match=f'^"{name}" must be a number of at least 0; got {message}'):
            regime(arguments.pop("aleatoric"), arguments.pop("epistemic"), **arguments)


def splits(n_agents, most=None):
    """Every way to split so many agents over answers, as the sizes of the camps, falling."""
    most = n_agents if most is None else most
    if n_agents == 0:
        yield ()
    for size in range(min(n_agents, most), 0, -1):
        for rest in splits(n_agents - size, size):
            yield (size, *rest)


@pytest.mark.parametrize("n_agents", range(2, 7))
def test_sure_agents_are_a_consensus_only_where_all_agree(n_agents):
    named = {}
    for sizes in splits(n_agents):
        rows = np.eye(len(sizes))[np.repeat(np.arange(len(sizes)), sizes)]
        found = collaborative_entropy(rows)
        named[sizes] = regime(found.aleatoric, found.epistemic, **THRESHOLDS)
    assert len(named) == {2: 2, 3: 3, 4: 5, 5: 7, 6: 11}[n_agents]  # the partitions of the number
    assert named.pop((n_agents,)) == "consensus"
    assert set(named.values()) == {"conflict"}
