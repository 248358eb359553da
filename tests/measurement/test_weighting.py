import math

import numpy as np
import pytest

from coe_agents.measurement import weighting
from coe_agents.measurement.weighting import (
    log_probabilities,
    most_probable,
    places_of,
    rank_texts,
    shares,
    weighed_agents,
)
from coe_agents.policy import measure
from coe_agents.testing import create_response

RESPONSES = [
    create_response("b", "x", logprob=-2.0, n_tokens=4),
    create_response("a", "x", logprob=-3.0, n_tokens=1),
    create_response("b", "y", logprob=-6.0, n_tokens=2),
]


WITHOUT_LOGPROB = create_response("a", "y")


def test_agents_are_numbered_as_they_appear_and_weights_and_shares_sum_to_1():
    names, places, weights = weighed_agents(RESPONSES, None)
    assert names == ["b", "a"]
    assert places.tolist() == [0, 1, 0]
    assert weights.tolist() == [0.5, 0.5]

    *_, weights = weighed_agents(RESPONSES, {"a": 0.25, "b": 0.75, "absent": 5.0})
    assert weights.tolist() == [0.75, 0.25]
    *_, weights = weighed_agents(RESPONSES, {"a": 0.0, "b": 0.5})
    assert weights.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"got \['b', 'a'\]\. Raise one"):
        weighed_agents(RESPONSES, {"a": 0.0, "b": 0.0})

    # a token: -2/4, -3/1, -6/2
    logs, by_probability = log_probabilities(RESPONSES, "auto")
    assert logs.tolist() == [-0.5, -3.0, -3.0]
    assert by_probability == {"b": True, "a": True}

    # each agent by itself: "a" is counted, since one of its responses has no log-probability
    partly = [*RESPONSES, WITHOUT_LOGPROB]
    logs, by_probability = log_probabilities(partly, "auto")
    assert logs.tolist() == [-0.5, 0.0, -3.0, 0.0]
    assert by_probability == {"b": True, "a": False}

    with pytest.raises(ValueError, match=r"got none for some of a\. "):
        log_probabilities(partly, "probability")
    logs, _ = log_probabilities(RESPONSES, "probability")
    assert logs.tolist() == [-0.5, -3.0, -3.0]

    logs, by_probability = log_probabilities(RESPONSES, "frequency")
    assert logs.tolist() == [0.0, 0.0, 0.0]
    assert by_probability == {"b": False, "a": False}

    above_zero = create_response("b", "z", logprob=0.5, n_tokens=1)
    confidences = weighting.token_confidences([*RESPONSES, above_zero, WITHOUT_LOGPROB])
    confidence_of_b = (math.exp(-0.5) + math.exp(-3.0) + 1.0) / 3
    assert confidences == pytest.approx({"b": confidence_of_b})

    # agent 0: e^-5000 to e^-5001, 1 to 1/e; agent 1 said one thing
    of_agents = shares(np.array([-5000.0, -9000.0, -5001.0]), np.array([0, 1, 0]))
    assert of_agents == pytest.approx([1 / (1 + math.exp(-1)), 1.0, 1 / (1 + math.e)])


def test_texts_rank_by_support_and_equal_ones_by_text_repetitions_together_and_names_as_sorted():
    # 1e-10 apart is equal, 1e-8 is not
    nearly = ("a", 0.3 - 1e-10)
    ranked = rank_texts([("b", 0.3), nearly, ("c", 0.4)])
    assert ranked == [("c", 0.4), nearly, ("b", 0.3)]
    ranked = rank_texts([("a", 0.3 - 1e-8), ("b", 0.3)])
    assert [text for text, _ in ranked] == ["b", "a"]

    repeated = ["x", "y ", None, " y"]
    assert most_probable(repeated, np.array([0.3, 0.2, 0.3, 0.2])) == "y"
    assert most_probable(["y", "x"], np.array([0.5, 0.5 - 1e-10])) == "x"
    assert most_probable(["y", "x"], np.array([0.5, 0.5 - 1e-8])) == "y"

    assert places_of(["b", "c", "a"]).tolist() == [1, 2, 0]
    assert places_of(["x" * 5, "x"]).tolist() == [1, 0]
    assert places_of(["x\0", "x"]).tolist() == [1, 0]
    # twenty of each in turns: every "x" comes before every "y", and equal ones stay as they came
    in_turns = places_of(["y", "x"] * 20).tolist()
    assert in_turns[0::2] == list(range(20, 40))
    assert in_turns[1::2] == list(range(20))


@pytest.mark.parametrize("logprob", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_not_finite_counts_as_none(logprob):
    of_a = [
        create_response("a", "Rome", logprob=-1.0, n_tokens=1),
        create_response("a", "Pisa", logprob=logprob, n_tokens=1),
    ]

    measurement = measure([*of_a, create_response("b", "Rome")], [0, 1, 0])
    assert measurement.agents["a"].distribution == {"Rome": 0.5, "Pisa": 0.5}

    with pytest.raises(ValueError, match="needs a log-probability for every response"):
        measure(of_a, [0, 1], weighting="probability")
    with pytest.raises(ValueError, match='"weighting" must be one of auto, frequency, probability'):
        measure(of_a, [0, 1], weighting="mean")
