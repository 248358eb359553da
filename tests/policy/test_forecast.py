import pytest

from coe_agents.policy.measurement import forecast
from coe_agents.testing import create_response
from coe_agents.uncertainty import coe_forecast

SAID = [create_response(agent, "x", logprob=-1.0 * i, n_tokens=1) for agent in "ba" for i in (1, 2)]


def test_names_find_their_places():
    found = forecast(SAID, [0, 1, 0, 0], {"a": 3}, weights={"a": 1.0, "b": 3.0}, weighting="frequency", confidence=0.8)
    by_place = coe_forecast([0, 1, 0, 0], [0, 0, 1, 1], [0, 3], weights=[0.75, 0.25], confidence=0.8)
    assert found.total == pytest.approx(by_place.total)
    assert found.lead == by_place.lead


def test_responses_weigh_as_they_are_measured():
    found = forecast(SAID, [0, 1, 0, 0], {"b": 2})
    by_place = coe_forecast([0, 1, 0, 0], [0, 0, 1, 1], [2, 0], log_probs=[-1.0, -2.0, -1.0, -2.0])
    assert found == by_place
    assert found != forecast(SAID, [0, 1, 0, 0], {"b": 2}, weighting="frequency")
