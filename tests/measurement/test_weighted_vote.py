import math
from dataclasses import replace

import numpy as np
import pytest

from coe_agents.measurement.estimators import ESTIMATORS, score_of
from coe_agents.measurement.measurement import Run, measure
from coe_agents.measurement.statistics import statistics_of
from coe_agents.measurement.weighted_vote import (
    confidences_of,
    fill_confidences,
    find_leaders,
    weighted_votes,
)
from coe_agents.types import create_response
from tests.measurement.measurements import measured_texts


def stating(**confidences):
    """The measurement of one response of each agent: its text, and the confidence that it states in it."""
    responses = [
        create_response(name, text, confidence=stated)
        for name, (text, stated) in confidences.items()
    ]
    texts = [response["text"] for response in responses]
    return measure(responses, [texts.index(text) for text in texts])


def test_votes_by_weights_by_hand():
    # a gives Paris 1/2 and Rome 1/2, b gives Rome 1: by (3, 1) Paris has 3/8, Rome 3/8 + 1/4
    measurement = measured_texts(a=["Paris", "Rome"], b=["Rome", "Rome"])
    votes = dict(
        zip(
            measurement.representatives,
            weighted_votes(measurement, {"a": 3.0, "b": 1.0}),
            strict=True,
        )
    )
    assert votes == pytest.approx({"Paris": 3 / 8, "Rome": 5 / 8})
    # without weights those of the measurement count, which are equal here
    equal = dict(zip(measurement.representatives, weighted_votes(measurement, None), strict=True))
    assert equal == pytest.approx({"Paris": 1 / 4, "Rome": 3 / 4})
    weighed = measured_texts({"a": 3.0, "b": 1.0}, a=["Paris", "Rome"], b=["Rome", "Rome"])
    assert weighted_votes(weighed, None) == pytest.approx(
        weighted_votes(measurement, {"a": 3.0, "b": 1.0})
    )


def test_agents_that_did_not_answer_do_not_count_and_without_any_there_are_no_votes():
    measurement = measured_texts(a=["Paris"], b=["Rome"])
    assert weighted_votes(measurement, {"a": 1.0, "b": 1.0, "absent": 8.0}) == pytest.approx(
        [0.5, 0.5]
    )
    nobody = weighted_votes(measurement, {"absent": 1.0})
    assert nobody.tolist() == [0.0, 0.0]
    assert find_leaders(nobody) == []


@pytest.mark.parametrize(
    ("stated", "token", "expected"),
    [
        ([0.5, 0.25], [0.5, 1.0], [0.25, 0.25]),
        ([0.5, None], [None, 0.75], [0.5, 0.75]),
        # the mean of .2 and .6
        ([0.2, None, 0.6], [None, None, None], [0.2, 0.4, 0.6]),
        ([None, None], [None, None], [1.0, 1.0]),
        ([0.0, None], [None, None], [0.0, 0.0]),
    ],
)
def test_an_unknown_confidence_is_the_mean_of_the_others(stated, token, expected):
    assert fill_confidences(stated, token) == pytest.approx(expected)


def test_confidence_counts_only_where_it_is_known_for_all_of_an_agents_responses():
    rows = [
        create_response("a", "Paris", confidence=stated, index=i)
        for i, stated in enumerate((0.5, None))
    ]
    rows += [create_response("b", "Paris", confidence=0.25)]
    assert confidences_of(measure(rows, [0, 0, 0]), ["a", "b"]).tolist() == [0.25, 0.25]


def test_who_is_sure_leads_and_breaks_a_tie():
    measurement = stating(a=("Paris", 0.9), b=("Rome", 0.1), c=("Rome", 0.2))
    votes = weighted_votes(measurement, None, score="confidence_vote_share")
    # .9 / 3 against (.1 + .2) / 3
    assert dict(zip(measurement.representatives, votes, strict=True)) == pytest.approx(
        {"Paris": 0.3, "Rome": 0.1}
    )
    assert score_of(measurement, "confidence_vote_share") == pytest.approx(0.7)
    assert score_of(measurement, "vote_share") == pytest.approx(1 / 3)
    assert score_of(replace(measurement, run=Run()), "confidence_vote_share") == pytest.approx(0.7)
    tied = stating(a=("Paris", 0.5), b=("Rome", 0.25))
    assert tied.tied == ("Paris", "Rome")
    leaders = find_leaders(weighted_votes(tied, None, score="confidence_vote_share"))
    assert [tied.representatives[leader] for leader in leaders] == ["Paris"]


@pytest.mark.parametrize(
    ("stated", "logprob", "score"),
    [
        # votes of a for Paris, and of b, twice, for Rome
        ((0.75, 0.25, 0.75), None, 1 - 0.75 / 2),
        ((0.25, 0.75, None), None, 1 - 0.25 / 2),  # b's is then the mean of the others
        ((None, 0.25, 0.75), None, 1 - 0.5 / 2),
        ((None, None, None), math.log(0.5), 1 - 0.5 / 2),
        ((None, None, None), None, 1 / 2),
    ],
)
def test_of_samples_the_score_counts_the_confidence_of_whoever_states_all(stated, logprob, score):
    rows = [
        create_response(name, text, index=i, confidence=own, logprob=logprob, n_tokens=1)
        for i, (name, text, own) in enumerate(
            zip("abb", ("Paris", "Rome", "Rome"), stated, strict=True)
        )
    ]
    measurement = measure(rows, [0, 1, 1])
    own = ESTIMATORS["confidence_vote_share"](statistics_of(measurement))
    assert own == pytest.approx(score)
    assert score_of(measurement, "confidence_vote_share") == pytest.approx(score)


def test_without_confidence_it_is_the_vote_share():
    measurement = measured_texts(a=["Paris", "Rome"], b=["Rome", "Rome"])
    assert score_of(measurement, "confidence_vote_share") == pytest.approx(
        score_of(measurement, "vote_share")
    )


def test_names_and_the_order_of_agents_change_nothing():
    measurement = stating(a=("Paris", 0.9), b=("Rome", None), c=("Rome", 0.2))
    other = stating(z=("Rome", 0.2), y=("Paris", 0.9), x=("Rome", None))
    found = [
        sorted(weighted_votes(each, None, score="confidence_vote_share"))
        for each in (measurement, other)
    ]
    np.testing.assert_allclose(*found)
    weights = replace(measurement, weights={"a": 0.5, "b": 0.25, "c": 0.25})
    assert weighted_votes(weights, None).sum() == pytest.approx(1.0)
