import numpy as np
import pytest

from coe_agents import RegimePolicy
from coe_agents.testing import ScriptedAgent
from coe_agents.uncertainty import collaborative_entropy
from tests.graph.groups import decide, graph, saying

REGIME = RegimePolicy(0.5, 0.3)


def squared(p, q):
    return float(np.square(p - q).sum() / 2)


def test_a_divergence_may_be_a_function():
    # each row is (1, 0) against (1/2, 1/2): (1/4 + 1/4) / 2
    assert collaborative_entropy(np.eye(2), divergence=squared).epistemic == 0.25
    agents = [ScriptedAgent(name, [text] * 5) for name, text in (("a", "yes"), ("b", "no"))]
    decision = decide(*agents, policy=REGIME, divergence=squared)
    assert (decision["epistemic"], decision["divergence"], decision["regime"]) == (0.25, "squared", "conflict")
    assert decision["interval"][0] <= decision["coe"] <= decision["interval"][1]
    # rescaled by log 2 / 0.25, so that thresholds in nats keep their meaning
    assert "rescaled to 0.693" in decision["reason"]
    assert decide(*saying("yes", "yes"), policy=REGIME, divergence=squared)["answer"] == "yes"


@pytest.mark.parametrize(("divergence", "error"), [(lambda p, q: 1.0, ValueError), (lambda p, q: None, TypeError)])
def test_a_wrong_divergence_is_refused_when_the_graph_is_built(divergence, error):
    with pytest.raises(error, match="must return"):
        graph(*saying("yes", "no"), divergence=divergence)
