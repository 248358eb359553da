"""Thresholds keep their meaning under every divergence, from the measure to the decision."""

import numpy as np
import pytest

from coe_agents import RegimePolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent
from coe_agents.uncertainty import collaborative_entropy

REGIME = RegimePolicy(0.5, 0.3)


def decided(agents, *, policy=REGIME, **options):
    built = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, retries=0, **options)
    return built.compile().invoke({"question": "Q?"})["decision"]


def sure(*answers, n=5, weights=None):
    return [
        ScriptedAgent(f"agent{place}", [answer] * n, weight=1.0 if weights is None else weights[place])
        for place, answer in enumerate(answers)
    ]


def squared(p, q):
    """Half the squared Euclidean distance."""
    return float(np.square(p - q).sum() / 2)


def test_a_divergence_may_be_a_function():
    # each row is (1, 0) against (1/2, 1/2): (1/4 + 1/4) / 2
    assert collaborative_entropy(np.eye(2), divergence=squared).epistemic == 0.25
    decision = decided(sure("yes", "no"), divergence=squared)
    assert (decision["epistemic"], decision["divergence"], decision["regime"]) == (0.25, "squared", "conflict")
    assert decision["interval"][0] <= decision["coe"] <= decision["interval"][1]
    # rescaled by log 2 / 0.25, so that thresholds in nats keep their meaning
    assert "rescaled to 0.693" in decision["reason"]
    assert decided(sure("yes", "yes"), divergence=squared)["answer"] == "yes"


@pytest.mark.parametrize(("divergence", "error"), [(lambda p, q: 1.0, ValueError), (lambda p, q: None, TypeError)])
def test_a_wrong_divergence_is_refused_when_the_graph_is_built(divergence, error):
    with pytest.raises(error, match="must return"):
        create_coe_graph(sure("yes", "no"), clusterer=NormalizedMatch(), policy=REGIME, divergence=divergence)
