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

GIVEN = [("b", "x", -2.0, 4), ("a", "x", -3.0, 1), ("b", "y", -6.0, 2)]
SAID = [create_response(name, text, logprob=log, n_tokens=n) for name, text, log, n in GIVEN]


def test_agents_are_numbered_as_they_appear_and_weights_and_shares_sum_to_1():
    names, places, weights = weighed_agents(SAID, None)
    assert names == ["b", "a"]
    assert places.tolist() == [0, 1, 0]
    assert weights.tolist() == [0.5, 0.5]
    assert weighed_agents(SAID, {"a": 0.25, "b": 0.75, "absent": 5.0})[2].tolist() == [0.75, 0.25]
    assert weighed_agents(SAID, {"a": 0.0, "b": 0.5})[2].tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"got \['b', 'a'\]\. Raise one"):
        weighed_agents(SAID, {"a": 0.0, "b": 0.0})
    # -2/4, -3/1, -6/2
    logs, by_probability = log_probabilities(SAID, "auto")
    assert logs.tolist() == [-0.5, -3.0, -3.0]
    assert by_probability == {"b": True, "a": True}
    logs, by_probability = log_probabilities([*SAID, create_response("a", "y")], "auto")
    assert (logs.tolist(), by_probability) == (
        [-0.5, 0.0, -3.0, 0.0],
        {"b": True, "a": False},
    )  # each by itself
    with pytest.raises(ValueError, match=r"got none for some of a\. "):
        log_probabilities([*SAID, create_response("a", "y")], "probability")
    assert log_probabilities(SAID, "probability")[0].tolist() == [-0.5, -3.0, -3.0]
    logs, by_probability = log_probabilities(SAID, "frequency")
    assert logs.tolist() == [0.0, 0.0, 0.0]
    assert by_probability == {"b": False, "a": False}
    said = [*SAID, create_response("b", "z", logprob=0.5, n_tokens=1), create_response("a", "y")]
    assert weighting.token_confidences(said) == pytest.approx(
        {"b": (math.exp(-0.5) + math.exp(-3.0) + 1.0) / 3}
    )
    # agent 0: e^-5000 to e^-5001, 1 to 1/e; agent 1 said one thing
    found = shares(np.array([-5000.0, -9000.0, -5001.0]), np.array([0, 1, 0]))
    assert found == pytest.approx([1 / (1 + math.exp(-1)), 1.0, 1 / (1 + math.e)])


def test_texts_rank_by_support_and_equal_ones_by_text_repetitions_together_and_names_as_sorted():
    # 1e-10 apart is equal, 1e-8 is not
    assert rank_texts([("b", 0.3 - 1e-10), ("a", 0.3), ("c", 0.4)]) == [
        ("c", 0.4),
        ("a", 0.3),
        ("b", 0.3 - 1e-10),
    ]
    assert [text for text, _ in rank_texts([("a", 0.3 - 1e-8), ("b", 0.3)])] == ["b", "a"]
    assert most_probable(["x", "y ", None, " y"], np.array([0.3, 0.2, 0.3, 0.2])) == "y"
    assert most_probable(["y", "x"], np.array([0.5, 0.5 - 1e-10])) == "x"
    assert most_probable(["y", "x"], np.array([0.5, 0.5 - 1e-8])) == "y"
    assert places_of(["b", "c", "a"]).tolist() == [1, 2, 0]
    assert places_of(["x" * 5, "x"]).tolist() == [1, 0]
    assert places_of(["x\0", "x"]).tolist() == [1, 0]
    assert places_of(["y", "x"] * 20).tolist() == [
        place // 2 + 20 * (place % 2 == 0) for place in range(40)
    ]


@pytest.mark.parametrize("logprob", [math.nan, math.inf, -math.inf])
def test_a_log_probability_that_is_not_finite_counts_as_none(logprob):
    given = (("Rome", -1.0), ("Pisa", logprob))
    said = [create_response("a", text, logprob=log, n_tokens=1) for text, log in given]
    found = measure([*said, create_response("b", "Rome")], [0, 1, 0])
    assert found.agents["a"].distribution == {"Rome": 0.5, "Pisa": 0.5}
    with pytest.raises(ValueError, match="needs a log-probability for every response"):
        measure(said, [0, 1], weighting="probability")
    with pytest.raises(ValueError, match='"weighting" must be one of auto, frequency, probability'):
        measure(said, [0, 1], weighting="mean")
