"""What tinyworld's models are taught to do about requests."""

from random import Random

from tools.tinyworld.acts import act_calls, is_held_out
from tools.tinyworld.requests import draw_request, tinyworld_requests


def test_what_is_held_out_is_so_in_all_wordings_of_the_same_transfer():
    held = next(request for request in tinyworld_requests() if request.kind == "transfer").action[0]["args"]
    rng, found = Random(0), set()
    while len(found) < 4:
        drawn = draw_request(rng, "transfer", held["name"])
        if drawn.amount == held["amount"]:
            assert is_held_out(drawn)
            found.add(drawn.text)


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
