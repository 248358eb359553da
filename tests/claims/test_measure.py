import numpy as np
import pytest

from coe_agents.claims.measure import measure_claims
from coe_agents.uncertainty import collaborative_entropy

AGENTS = ["a", "a", "b", "b", "c"]
SUPPORTS, CONTRADICTS, SILENT = [1, 0], [0, 1], [0, 0]
IN_PART = [0.5, 0]
JUDGED = np.array(
    [
        [SUPPORTS, SUPPORTS, SUPPORTS, CONTRADICTS, IN_PART],
        [SUPPORTS, SILENT, SILENT, SILENT, CONTRADICTS],
    ]
)


def test_support_between_is_of_the_others_if_there_are_any_and_a_draft_never_supports_itself():
    claims = measure_claims(JUDGED, AGENTS, draft=0)
    assert claims.agents == ("a", "b", "c")
    assert claims.within.tolist() == [1.0, 0.0]  # the draft itself supports both
    assert claims.between.tolist() == [0.5, 0.0]  # b: 1/2, c: 1/2; then nobody

    silence = [0.0, 0.0]  # which is no contradiction
    assert claims.shares[1].tolist() == [silence, silence, [0.0, 1.0]]

    expected = collaborative_entropy([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    assert claims.coe[0] == pytest.approx(expected.total)
    assert claims.aleatoric[0] == pytest.approx(expected.aleatoric)


def test_without_another_response_nothing_is_known():
    claims = measure_claims([[[1, 0]]], ["a"], draft=0)
    assert np.isnan(claims.between).all()
    assert np.isnan(claims.within).all()
    assert np.isnan(claims.coe).all()

    with pytest.raises(ValueError, match='"judged" must be of shape'):
        measure_claims([[[2, 0]]], ["a"], draft=0)


def test_names_and_order_change_nothing_and_weights_count():
    claims = measure_claims(JUDGED, AGENTS, draft=0, weights={"b": 3.0})

    order = [4, 2, 0, 3, 1]
    new_names = {"a": "z", "b": "y", "c": "x"}
    moved = measure_claims(
        JUDGED[:, order],
        [new_names[AGENTS[place]] for place in order],
        draft=order.index(0),
        weights={new_names["b"]: 3.0},
    )
    assert claims.between.tolist() == [0.5, 0.0]
    assert moved.between.tolist() == [0.5, 0.0]
    assert np.allclose(claims.coe, moved.coe)

    without_b = measure_claims(JUDGED, AGENTS, draft=0, weights={"b": 0.0})
    assert without_b.between.tolist() == [0.5, 0.0]
