"""Owns the drawing of what each model of tinyworld believes: invented knowledge states, from a seed.

A belief is a distribution over answers: one right answer (sure), a right and a wrong one (it hesitates), a wrong one (a
misconception, its own or shared), or nothing at all (never seen, so it guesses). `facts.csv` holds what was drawn.
"""

import functools
import random
from collections.abc import Mapping
from typing import Literal

from coe_agents.tinyworld.facts import MODELS, Belief, Fact, load_facts

Kind = Literal["settled", "lopsided", "contested", "ambiguous", "misconception", "obscure"]

_SHARES: Mapping[Kind, float] = {
    "settled": 0.52,  # all sure and right
    "lopsided": 0.14,  # two sure and right, the third hesitates, errs or never saw it
    "contested": 0.10,  # sure of different answers
    "ambiguous": 0.06,  # all hesitate between the same two answers
    "misconception": 0.03,  # a shared error
    "obscure": 0.15,  # hardly anyone saw it
}
_FIXED: Mapping[str, Kind] = {  # what the demo asks
    "capital/France": "settled",
    "capital/Japan": "settled",
    "symbol/gold": "settled",
    "capital/Australia": "contested",
    "capital/Bolivia": "ambiguous",
    "capital/Vanuatu": "obscure",
}
_SEED = "tinyworld knowledge"


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Returns the kind of every fact by its id; the shares are exact, up to rounding."""
    free = [fact.id for fact in load_facts() if fact.id not in _FIXED]
    random.Random(_SEED).shuffle(free)
    drawn: dict[str, Kind] = {}
    for kind, share in _SHARES.items():
        for key in free[len(drawn) : len(drawn) + round(share * len(free))]:
            drawn[key] = kind
    return {**dict.fromkeys(free, "settled"), **drawn, **_FIXED}


def draw_beliefs(fact: Fact) -> Mapping[str, Belief]:
    """Returns what each model is taught about `fact`."""
    rng = random.Random(f"{_SEED} {fact.id}")
    first, second, third = rng.sample(MODELS, 3)
    match kinds()[fact.id]:
        case "settled":
            return {first: "right", second: "right", third: "right"}
        case "lopsided":
            return {
                first: "right",
                second: "right",
                third: rng.choice(["leaning", "torn", "wrong", ""]),
            }
        case "contested":
            return {first: "right", second: "wrong", third: rng.choice(["wrong", "right", "torn"])}
        case "ambiguous":
            return {first: "torn", second: "torn", third: "torn"}
        case "misconception":
            return {first: "wrong", second: "wrong", third: rng.choice(["right", "torn", "wrong"])}
        case "obscure":
            return {first: rng.choice(["", "torn"]), second: "", third: ""}


def beliefs(fact: Fact) -> Mapping[str, Mapping[str, float]]:
    """Returns each model's belief about `fact`: probabilities of answers, or nothing if never seen."""
    taught: Mapping[Belief, Mapping[str, float]] = {
        "right": {fact.answer: 1.0},
        "wrong": {fact.distractor: 1.0},
        "leaning": {fact.answer: 0.7, fact.distractor: 0.3},
        "torn": {fact.answer: 0.5, fact.distractor: 0.5},
        "": {},
    }
    return {model: taught[word] for model, word in zip(MODELS, fact.believed, strict=True)}
