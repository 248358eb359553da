import numpy as np
import pytest

from coe_agents.claims.measure import measure_claims
from coe_agents.uncertainty import collaborative_entropy

AGENTS = ["a", "a", "b", "b", "c"]
JUDGED = np.array(
    [[[1, 0], [1, 0], [1, 0], [0, 1], [0.5, 0]], [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]]
)


def test_support_between_is_of_the_others_if_there_are_any_and_a_draft_never_supports_itself():
    found = measure_claims(JUDGED, AGENTS, drafted_by="a", draft=0)
    assert found.agents == ("a", "b", "c")
    assert found.within.tolist() == [1.0, 0.0]  # the draft itself supports both
    assert found.between.tolist() == [0.5, 0.0]  # b: 1/2, c: 1/2; then nobody
    assert found.shares[1].tolist() == [
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 1.0],
    ]  # silence is no contradiction
    expected = collaborative_entropy([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    assert (found.coe[0], found.aleatoric[0]) == pytest.approx((expected.total, expected.aleatoric))
    found = measure_claims([[[1, 0]]], ["a"], drafted_by="a", draft=0)
    assert np.isnan([found.between, found.within, found.coe]).all()
    with pytest.raises(ValueError, match='"judged" must be of shape'):
        measure_claims([[[2, 0]]], ["a"], drafted_by="a")


def test_names_and_order_change_nothing_and_weights_count():
    order = [4, 2, 0, 3, 1]
    new = {"a": "z", "b": "y", "c": "x"}
    weights = [1.0, 1.0, 3.0, 3.0, 1.0]
    found = measure_claims(JUDGED, AGENTS, drafted_by="a", draft=0, weights=weights)
    names = [new[AGENTS[place]] for place in order]
    moved = [weights[place] for place in order]
    again = measure_claims(JUDGED[:, order], names, drafted_by="z", draft=2, weights=moved)
    assert found.between.tolist() == again.between.tolist() == [0.5, 0.0]
    assert np.allclose(found.coe, again.coe)
    assert measure_claims(
        JUDGED, AGENTS, drafted_by="a", weights=[1, 1, 0, 0, 1]
    ).between.tolist() == [0.5, 0.0]
