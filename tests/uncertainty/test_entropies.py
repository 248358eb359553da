import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings

from coe_agents.uncertainty import entropy, semantic_entropy
from tests.uncertainty.strategies import row

LOG_2 = math.log(2)


def test_by_hand_of_each_agent_and_certainty_is_positive_zero():
    # 1/2 log 2 + 2 * 1/4 log 4 = (1/2 + 1) log 2
    assert entropy([0.5, 0.25, 0.25]) == pytest.approx(1.5 * LOG_2, abs=1e-15)
    assert isinstance(entropy([0.5, 0.5]), float)
    assert semantic_entropy([[0.5, 0.5], [1.0, 0.0]]) == pytest.approx([LOG_2, 0.0])
    assert semantic_entropy(np.full((4, 3, 2), 0.5)).shape == (4, 3)
    assert semantic_entropy([0.5, 0.5]) == pytest.approx(LOG_2)
    assert isinstance(semantic_entropy([0.5, 0.5]), float)
    certain = entropy([0.0, 1.0, 0.0])
    assert certain == 0.0
    assert math.copysign(1.0, certain) == 1.0
    assert not np.signbit(semantic_entropy([[1.0, 0.0], [0.0, 1.0]])).any()
    # scipy's entr(1.0) is -0.0
    assert math.copysign(1.0, entropy([1.0])) == 1.0
    assert not np.signbit(semantic_entropy([[1.0], [1.0]])).any()


@given(row(5))
@settings(max_examples=50)
def test_range_and_oracle(p):
    value = entropy(p)
    assert 0.0 <= value <= math.log(5) + 1e-12
    assert value == pytest.approx(scipy.stats.entropy(p), abs=1e-12)
    assert value == pytest.approx(entropy(p[::-1]), abs=1e-12)


def test_refuses():
    with pytest.raises(
        ValueError,
        match=r'"p" must sum to 1; got a sum of 0.9. To turn .* call "cluster_distributions"',
    ):
        entropy([0.5, 0.4])
    with pytest.raises(ValueError, match=r'"p" must not be empty; got shape \(0,\)'):
        entropy([])
    with pytest.raises(ValueError, match="got rows of different lengths"):
        entropy([[1.0], [0.5, 0.5]])
