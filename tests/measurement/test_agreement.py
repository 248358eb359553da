import numpy as np
import pytest

from coe_agents.measurement.weighted_vote import agreement_weights, to_weights
from coe_agents.policy import measure
from coe_agents.testing import create_response
from tests.measurement.measurements import measured_texts as question

SPLIT = question(a=["x"], b=["x"], c=["y"])
MIXED = question(a=["x", "x"], b=["x", "z"], c=["z", "z"])


def test_an_agent_counts_by_the_cube_of_its_agreement_whatever_the_order_and_of_few_questions_widely():
    # SPLIT: a and b each agree with one of two others, 1/2; c with none. MIXED: p_a = (1, 0), p_b = (1/2, 1/2),
    # p_c = (0, 1): a meets b half of the time and c never, 1/4, and so does c; b meets each half of the time, 1/2
    found = agreement_weights([SPLIT, MIXED])
    agreement = {"a": (1 / 2 + 1 / 4) / 2, "b": (1 / 2 + 1 / 2) / 2, "c": (0 + 1 / 4) / 2}
    assert found.agreement == pytest.approx(agreement)
    total = sum(value**3 for value in agreement.values())
    assert found.weights == pytest.approx(
        {name: value**3 / total for name, value in agreement.items()}
    )
    assert found.odd_one_out == "c"
    found = agreement_weights([SPLIT, MIXED] * 3)
    assert found == agreement_weights([MIXED, MIXED, MIXED, SPLIT, SPLIT, SPLIT])
    for name, (low, high) in found.intervals.items():
        assert low <= found.weights[name] <= high
    low, high = found.intervals["b"]
    narrow, wide = agreement_weights([SPLIT, MIXED] * 100).intervals["b"]
    assert wide - narrow < (high - low) / 3


def test_what_is_no_answer_agrees_with_nothing_and_an_agent_is_judged_by_what_it_answered():
    silent = question(a=[""], b=[""], c=["I don't know."], d=["I don't know."])
    found = agreement_weights([silent, question(a=["x"], b=["x"], c=["y"], d=["x"])])
    assert found.agreement == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 0.0, "d": 1 / 3})
    said = [create_response(name, "I don't know.", calls=[]) for name in "ab"]
    assert agreement_weights([measure(said, [0, 0])]).agreement == {"a": 1.0, "b": 1.0}  # no call
    found = agreement_weights([SPLIT, question(a=["x"], b=["x"]), question(a=["alone"])])
    assert found.agreement == pytest.approx({"a": 3 / 4, "b": 3 / 4, "c": 0.0})
    assert found.n_questions == 2
    found = agreement_weights([question(a=["x"], b=["x"], c=["y"], d=["z"])])
    assert ([*found.weights], found.odd_one_out) == (["a", "b", "c", "d"], None)  # two are odd


def test_what_has_no_weights_is_refused():
    for questions, said in (
        ([], "at least two agents answered; got none of 0"),
        ([question(a=["x"])], "at least two agents answered; got none of 1"),
        ([SPLIT, question(d=["x"])], 'got "d" alone'),
        (
            [question(a=["x"], b=["y"])],
            "got 1 questions? to which no two agents give the same answer",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            agreement_weights(questions)


def test_agents_that_nobody_agrees_with_are_equals():
    # such is a resample of questions on which no two agents agree
    assert to_weights(np.zeros(4)).tolist() == [0.25] * 4
