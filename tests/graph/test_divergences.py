"""Thresholds keep their meaning under every divergence, from the measure to the decision."""

import math

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


def kl(p, q):
    return squared(p, q)


@pytest.mark.parametrize(
    ("divergence", "error", "message"),
    [
        (
            lambda p, q: math.nan,
            ValueError,
            r"must return a finite value of at least 0; got nan from '<lambda>'\. Corr",
        ),
        (lambda p, q: -squared(p, q), ValueError, r"must return a finite value of at least 0; got -0\.25"),
        (lambda p, q: 1.0, ValueError, "must return 0 for equal rows; got more"),
        (lambda p, q: 0.0, ValueError, "must return more than 0 for rows that differ; got 0"),
        (lambda p, q: np.square(p - q), TypeError, "must return a number; got ndarray"),
        (lambda p, q: None, TypeError, "must return a number; got NoneType"),
        (kl, ValueError, "must not have a built-in name; got 'kl'"),
        ("nonsense", ValueError, '"divergence" must be one of kl'),
    ],
)
def test_a_wrong_divergence_is_refused_when_the_graph_is_built(divergence, error, message):
    agents = sure("yes", "no")
    with pytest.raises(error, match=message):
        create_coe_graph(agents, clusterer=NormalizedMatch(), policy=REGIME, divergence=divergence)
