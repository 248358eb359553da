import math
from typing import get_args

import numpy as np
import pytest

from coe_agents.types import Regime
from coe_agents.uncertainty import regime

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


def test_an_infinite_threshold_is_always_low():
    assert regime(9.0, 9.0, aleatoric_threshold=math.inf, epistemic_threshold=0.3) == "conflict"


@pytest.mark.parametrize("name", ["aleatoric", "epistemic", "aleatoric_threshold", "epistemic_threshold"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (math.nan, ValueError, "must be a number of at least 0; it is nan"),
        (-0.1, ValueError, "must be a number of at least 0; it is -0.1"),
        ([0.1, 0.2], ValueError, r"must be one number; it has shape \(2,\). Call once per question"),
        (None, TypeError, "must hold real numbers"),
    ],
)
def test_refuses(name, value, error, message):
    arguments = {"aleatoric": 0.1, "epistemic": 0.1, **THRESHOLDS, name: value}
    with pytest.raises(error, match=f'"{name}" {message}'):
        regime(arguments.pop("aleatoric"), arguments.pop("epistemic"), **arguments)
