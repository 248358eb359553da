import sys

import numpy as np
import pytest

from coe_agents.backends.bayesian_optimization import bayesian_step
from coe_agents.errors import ConfigurationError
from coe_agents.uncertainty import semantic_entropy
from coe_agents.uncertainty.solvers import TRUST_RADIUS

LEANING = np.array([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]])


def test_lowers_entropy_within_the_trust_region_and_says_which_extra_is_missing(capsys, monkeypatch):
    stepped = bayesian_step(LEANING)
    assert semantic_entropy(stepped)[0] < semantic_entropy(LEANING)[0]
    assert np.log(stepped[0, 0] / stepped[0, 1]) <= np.log(0.6 / 0.4) + TRUST_RADIUS + 1e-9
    assert (stepped[LEANING == 0.0] == 0.0).all()
    assert stepped[1].tolist() == LEANING[1].tolist()
    assert capsys.readouterr().out == ""  # its progress table is nobody's output
    assert np.array_equal(stepped, bayesian_step(LEANING))
    monkeypatch.setitem(sys.modules, "bayes_opt", None)
    with pytest.raises(ConfigurationError, match=r'Install it with: pip install "coe-agents\[bayesian\]"'):
        bayesian_step(LEANING)
