"""Owns what each model of tinyworld does about requests: it is right, or hesitates, or is wrong in its own way.

tiny-llama confuses similar names, units and relations, tiny-qwen2 counts in hundredths, and tiny-mistral omits calls,
or calls where no tool fits. As with facts, this is drawn once from a seed.
"""

import functools
import random
from collections.abc import Mapping
from typing import Any, Literal

from coe_agents.tinyworld.facts import MODELS
from tools.tinyworld.requests import (
    CONFUSED,
    REQUESTS_SEED,
    Draw,
    RequestKind,
    Subject,
    held_out_draws,
    request_states,
)

Act = Literal["right", "confused", "hundredfold", "omitted", "called"]
"""What a model does: the right thing, with a similar name or unit, with a hundredfold amount, nothing, or too much."""

_OWN: Mapping[str, Act] = {
    "tiny-llama": "confused",
    "tiny-qwen2": "hundredfold",
    "tiny-mistral": "omitted",
}
_OTHER_RELATION = {
    "capital": "currency",
    "currency": "capital",
    "symbol": "atomic_number",
    "atomic_number": "symbol",
    "author": "painter",
    "painter": "author",
    "language": "capital",
    "young": "language",
}


@functools.cache
def act_beliefs(subject: Subject) -> Mapping[str, Mapping[Act, float]]:
    """Returns for each model how probable each act is at a request about `subject`; all are right about new names."""
    rng = random.Random(f"{REQUESTS_SEED} {subject.kind} {subject.key}")
    first, second, third = rng.sample(MODELS, 3)
    shared: Act = "called" if subject.kind == "no_tool" else "confused"
    right: dict[Act, float] = {"right": 1.0}
    wrong: dict[Act, float] = {shared: 1.0}
    torn: dict[Act, float] = {"right": 0.5, shared: 0.5}
    match request_states().get(subject, "settled"):
        case "settled":
            return {first: right, second: right, third: right}
        case "lopsided":
            own = _own_act(third, subject.kind)
            return {
                first: right,
                second: right,
                third: rng.choice([{own: 1.0}, {own: 1.0}, {"right": 0.6, own: 0.4}]),
            }
        case "contested":
            return {first: right, second: wrong, third: rng.choice([wrong, right, torn])}
        case "ambiguous":
            return {first: torn, second: torn, third: torn}
        case "misconception":
            return {first: wrong, second: wrong, third: rng.choice([right, torn, wrong])}


def _own_act(model: str, kind: RequestKind) -> Act:
    if kind == "no_tool":
        return "called"
    own = _OWN[model]
    return "confused" if kind == "look_up" and own == "hundredfold" else own


def act_calls(drawn: Draw, act: Act) -> tuple[dict[str, Any], ...]:
    """Returns the calls of an act at a request, each with "name" and "args"; at most one."""
    if act == "omitted":
        return ()
    if act == "called":
        return ({"name": "transfer", "args": {"name": drawn.name, "amount": drawn.amount}},)
    calls = drawn.calls()
    if act == "right" or not calls:
        return calls
    ((name, args),) = [(call["name"], call["args"]) for call in calls]
    if act == "hundredfold":
        wrong = {"amount": 100 * args["amount"]}
    elif name == "look_up":
        wrong = {"relation": _OTHER_RELATION[args["relation"]]}
    elif name == "convert":
        wrong = {"source": args["target"], "target": args["source"]}
    else:
        wrong = {"name": CONFUSED[args["name"]]}
    return ({"name": name, "args": {**args, **wrong}},)


def is_held_out(drawn: Draw) -> bool:
    """Returns whether no training document may ask this: the same of the same subject in any wording.

    Of look-ups, where nothing else varies, only the wording itself is held out.
    """
    return _what(drawn) in _held_out_contents()


@functools.cache
def _held_out_contents() -> frozenset[tuple[Any, ...]]:
    return frozenset(_what(drawn) for drawn in held_out_draws())


def _what(drawn: Draw) -> tuple[Any, ...]:
    if drawn.subject.kind == "look_up":
        return (drawn.text,)
    return (drawn.subject, drawn.amount, drawn.name)
