import math
from dataclasses import replace

import numpy as np
import pytest

from coe_agents.policy.learned_gates import LearnedGate, gate_features
from coe_agents.policy.measurement import AgentMeasurement
from tests.policy.measurements import measured


def agent(**distribution):
    return AgentMeasurement(4, "frequency", 0.0, distribution)


# no agent's distribution names what it did not say
AGENTS = {"a": agent(B=1.0), "b": agent(A=0.25, B=0.25, C=0.5)}
SUPPORT = {"support": (0.125, 0.625, 0.25), "representatives": ("A", "B", "C"), "answer": "B"}
MEASURED = measured(n_agents=2, agents=AGENTS, **SUPPORT)
PER_AGENT = ("weights", "deviations", "stated", "token", "no_stated", "no_token")


def test_tied_clusters_share_the_support_what_was_not_said_has_none_and_the_log_odds_overflow_nothing():
    # both lead: "a" supports them by (1 + 0) / 2 on average, "b" by (0 + 1) / 2, "c" by (1/4 + 1/4) / 2
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    log_entropy, support = gate_features(rows, np.array([0.4, 0.4, 0.2]))
    # the mean is (0.45, 0.45, 0.1)
    assert log_entropy == pytest.approx(math.log(1 - math.log(2 * 0.45**3 + 0.1**3) / 2))
    assert support == pytest.approx([1 / 2, 1 / 2, 1 / 4])
    # the mean is (1/8, 5/8, 2/8), and B leads: 1 and 1/4, 3/8 to either side of their mean
    gate = LearnedGate(("a", "b"), (0.5, 0.5), 0.0, (1.0, -1.0), 0.0)
    assert gate.choose_cluster(MEASURED) == 1
    assert gate.uncertainty(MEASURED) == pytest.approx(1 / (1 + math.exp(-0.75)))
    wide = LearnedGate(("a", "b"), (0.5, 0.5), 1e9, (0.0, 0.0), 0.0)
    assert wide.uncertainty(MEASURED) == 1.0
    assert replace(wide, slope=-1e9).uncertainty(MEASURED) == 1 / (1 + math.exp(500))


def test_confidence_counts_for_the_chosen_cluster_or_against_it():
    # B is chosen: "a" is for it, by 1, and "b" against it, by 2 / 4 - 1
    sure = {name: replace(each, confidence=0.95) for name, each in MEASURED.agents.items()}
    gate = LearnedGate(("a", "b"), (0.5, 0.5), 0.0, (0.0, 0.0), 0.5, stated=(-1.0, -4.0), no_stated=(0.25, 2.0))
    found = gate.uncertainty(replace(MEASURED, agents=sure))
    assert found == pytest.approx(1 / (1 + math.exp(-(0.5 - 1.0 * 0.1 - 4.0 * -0.05))))
    silent = replace(MEASURED, agents=sure | {"b": MEASURED.agents["b"]})
    assert gate.uncertainty(silent) == pytest.approx(1 / (1 + math.exp(-(0.5 - 1.0 * 0.1 + 2.0))))


def test_refuses():
    good = {"agents": ("a", "b"), "slope": 1.0, "intercept": 0.0} | dict.fromkeys(PER_AGENT, (0.5, 0.5))
    for passes in ({}, {"weights": (1.0, 0.0)}, {"weights": (0.5, 0.5 + 9e-7)}, {"weights": (0.5, 0.5 - 9e-7)}):
        LearnedGate(**good | passes)
    for fields, message in (
        (dict.fromkeys(("agents", *PER_AGENT), ()), "a gate over 0 agents must have as many weights"),
        ({"deviations": (1.0, 2.0, 3.0)}, "at least one; got 2 and 3. Calibrate again"),
        ({"weights": (0.5, 0.25, 0.25)}, "at least one; got 3 and 2. Calibrate again"),
        ({"weights": (0.5, 0.5 + 1.1e-6)}, '"weights" of a gate must be at least 0 and sum to 1; got'),
        ({"weights": (0.5, 0.5 - 1.1e-6)}, '"weights" of a gate must be at least 0 and sum to 1; got'),
        ({"weights": (1.1, -0.1)}, '"weights" of a gate must be at least 0 and sum to 1; got'),
        ({"slope": math.nan}, "a gate must hold finite numbers; got .*nan.*. Calibrate again"),
        ({"intercept": True}, "a gate must hold finite numbers"),
        *(({name: (0.0, math.inf)}, "a gate must hold finite numbers") for name in PER_AGENT),
        ({"token": ()}, "two terms of a confidence for each agent, or none; got 0 and 2"),
        ({"token": (1.0,), "no_token": (1.0,)}, "two terms of a confidence for each agent, or none; got 1 and 1"),
    ):
        with pytest.raises(ValueError, match=f"^.*{message}"):
            LearnedGate(**good | fields)
