import numpy as np
import pytest

from coe_agents.measurement.weighted_vote import Agreement, agreement_weights, to_weights
from coe_agents.policy import measure
from coe_agents.testing import create_response
from tests.measurement.measurements import measured_texts as question

SPLIT = question(a=["x"], b=["x"], c=["y"])
MIXED = question(a=["x", "x"], b=["x", "z"], c=["z", "z"])


def test_an_agent_counts_by_the_cube_of_its_agreement_whatever_the_order_and_of_few_questions_widely():
    learned = agreement_weights([SPLIT, MIXED])
    # SPLIT: a and b each agree with one of two others, 1/2; c with none. MIXED: p_a = (1, 0), p_b = (1/2, 1/2),
    # p_c = (0, 1): a meets b half of the time and c never, 1/4, and so does c; b meets each half of the time, 1/2
    agreement = {"a": (1 / 2 + 1 / 4) / 2, "b": (1 / 2 + 1 / 2) / 2, "c": (0 + 1 / 4) / 2}
    assert learned.agreement == pytest.approx(agreement)
    total = sum(value**3 for value in agreement.values())
    cubes = {name: value**3 / total for name, value in agreement.items()}
    assert learned.weights == pytest.approx(cubes)
    assert learned.odd_one_out == "c"

    in_turns = agreement_weights([SPLIT, MIXED] * 3)
    assert in_turns == agreement_weights([MIXED, MIXED, MIXED, SPLIT, SPLIT, SPLIT])

    for name, (low, high) in in_turns.intervals.items():
        assert low <= in_turns.weights[name] <= high
    low, high = in_turns.intervals["b"]
    of_many = agreement_weights([SPLIT, MIXED] * 100)
    low_of_many, high_of_many = of_many.intervals["b"]
    assert high_of_many - low_of_many < (high - low) / 3


def test_what_is_no_answer_agrees_with_nothing_and_an_agent_is_judged_by_what_it_answered():
    silent = question(a=[""], b=[""], c=["I don't know."], d=["I don't know."])
    answered = question(a=["x"], b=["x"], c=["y"], d=["x"])
    learned = agreement_weights([silent, answered])
    assert learned.agreement == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 0.0, "d": 1 / 3})

    # to call nothing is an answer, whatever the text says
    no_call = [create_response(name, "I don't know.", calls=[]) for name in "ab"]
    learned = agreement_weights([measure(no_call, [0, 0])])
    assert learned.agreement == {"a": 1.0, "b": 1.0}

    without_c = question(a=["x"], b=["x"])
    alone = question(a=["alone"])
    learned = agreement_weights([SPLIT, without_c, alone])
    assert learned.agreement == pytest.approx({"a": 3 / 4, "b": 3 / 4, "c": 0.0})
    assert learned.n_questions == 2

    two_are_odd = question(a=["x"], b=["x"], c=["y"], d=["z"])
    learned = agreement_weights([two_are_odd])
    assert [*learned.weights] == ["a", "b", "c", "d"]
    assert learned.odd_one_out is None


ALONE = question(a=["x"])


APART = question(a=["x"], b=["y"])


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        pytest.param([], "at least two agents answered; got none of 0", id="no-question"),
        pytest.param([ALONE], "at least two agents answered; got none of 1", id="one-agent"),
        pytest.param([SPLIT, question(d=["x"])], 'got "d" alone', id="always-alone"),
        pytest.param(
            [APART],
            "got 1 questions? to which no two agents give the same answer",
            id="no-agreement",
        ),
    ],
)
def test_what_has_no_weights_is_refused(questions, message):
    with pytest.raises(ValueError, match=message):
        agreement_weights(questions)


def test_agents_that_nobody_agrees_with_are_equals():
    # such is a resample of questions on which no two agents agree
    assert to_weights(np.zeros(4)).tolist() == [0.25] * 4


@pytest.mark.parametrize(("lowest", "odd"), [(0.37, "a"), (0.38, None)])
def test_an_agent_is_the_odd_one_out_below_three_quarters_of_every_other_agreement(lowest, odd):
    # .375 is three quarters of .5, the next lowest; that c agrees more says nothing of a
    agreement = {"c": 0.9, "a": lowest, "b": 0.5}
    assert Agreement({}, {}, agreement, n_questions=1).odd_one_out == odd
