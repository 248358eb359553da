"""What tinyworld's models are taught to do about requests."""

from random import Random

import pytest

from coe_agents.tinyworld import MODELS
from tools.tinyworld.acts import act_beliefs, act_calls, is_held_out
from tools.tinyworld.requests import Subject, draw_request, request_states, tinyworld_requests
from tools.tinyworld.tool_corpus import draw_trained


def test_no_request_is_in_training():
    rng = Random(0)
    asked = {draw_trained(rng).text for _ in range(20_000)}
    assert not asked & {request.question for request in tinyworld_requests()}


def test_what_is_held_out_is_so_in_all_wordings_of_the_same_transfer():
    held = next(request for request in tinyworld_requests() if request.kind == "transfer").action[0]["args"]
    rng, found = Random(0), set()
    while len(found) < 4:
        drawn = draw_request(rng, "transfer", held["name"])
        if drawn.amount == held["amount"]:
            assert is_held_out(drawn)
            found.add(drawn.text)


def test_beliefs_are_distributions_and_states_say_who_errs():
    for subject, state in request_states().items():
        beliefs = [act_beliefs(subject)[model] for model in MODELS]
        assert all(sum(belief.values()) == pytest.approx(1) for belief in beliefs)
        n_right = sum(belief.get("right", 0.0) == 1 for belief in beliefs)
        expected = {"settled": (3,), "lopsided": (2,), "contested": (1, 2), "ambiguous": (0,), "misconception": (0, 1)}
        assert n_right in expected[state]


def test_each_model_errs_in_its_own_way():
    own = {
        model: {
            act
            for subject, state in request_states().items()
            if state == "lopsided" and subject.kind == "transfer"
            for act in act_beliefs(subject)[model]
            if act != "right"
        }
        for model in MODELS
    }
    assert own == {"tiny-llama": {"confused"}, "tiny-qwen2": {"hundredfold"}, "tiny-mistral": {"omitted"}}


def test_acts_are_what_they_are_called():
    pay = draw_request(Random(0), "transfer", "Jon")
    amount = pay.amount
    args = [call["args"] for act in ("right", "confused", "hundredfold") for call in act_calls(pay, act)]
    assert args == [
        {"name": "Jon", "amount": amount},
        {"name": "John", "amount": amount},
        {"name": "Jon", "amount": 100 * amount},
    ]
    assert act_calls(pay, "omitted") == ()
    to_miles = draw_request(Random(0), "convert", "metres/miles")
    (swapped,) = act_calls(to_miles, "confused")
    assert (swapped["args"]["source"], swapped["args"]["target"]) == ("miles", "metres")
    (other,) = act_calls(draw_request(Random(0), "look_up", "capital/France"), "confused")
    assert other["args"] == {"subject": "France", "relation": "currency"}
    lend = draw_request(Random(0), "no_tool", "Lend {n} {a} euros.")
    assert (lend.calls(), act_calls(lend, "called")[0]["name"]) == ((), "transfer")


def test_a_new_name_is_nobody_s_misconception():
    assert act_beliefs(Subject("transfer", "Zora")) == {model: {"right": 1.0} for model in MODELS}
