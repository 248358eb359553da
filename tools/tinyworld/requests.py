"""Owns the requests of tinyworld, whose right reply is a tool call or none, and how far its models agree about each.

As with facts, invented states are drawn once from a seed. What each model does about them is in its training:
`tools/tinyworld/acts.py`.
"""

import functools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coe_agents.tinyworld.facts import Split, load_facts
from coe_agents.tinyworld.tools import DIMENSIONS
from tools.tinyworld.outside import invent_name, outside_question

RequestKind = Literal["look_up", "convert", "transfer", "no_tool"]
RequestState = Literal["settled", "lopsided", "contested", "ambiguous", "misconception"]

_PAIRS = (
    "Ann Anna,Jon John,Eric Erik,Sara Sarah,Mark Marc,Lena Lina,Maria Marie,Peter Petra,Hans Hana,Carl Karl,Nina Nora,"
    "Tom Tim,Max Mia,Lucas Luca,Emma Emily,Paul Paula,Bob Rob,Eva Ava,Leo Lea,Ivan Ian"
)
CONFUSED = dict(
    pair for names in _PAIRS.split(",") for pair in (names.split(), names.split()[::-1])
)
"""Each name that is paid, and the one that it is confused with."""
AMOUNTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 24, 25, 30, 35, 40, 45, 50, 60, 75, 80, 90)
CONVERSIONS = tuple(
    (source, target)
    for sizes in DIMENSIONS
    for source in sizes
    for target in sizes
    if source != target
)

TRANSFERS = (
    "Transfer {a} euros to {n}.",
    "Send {n} {a} euros.",
    "Please pay {n} the sum of {a} euros.",
    "I owe {n} {a} euros, please pay.",
)
CONVERTS = (
    "Convert {a} {u} to {v}.",
    "How many {v} are {a} {u}?",
    "Please tell me what {a} {u} are in {v}.",
)
LOOK_UPS = (
    "Look up the {r} of {s}.",
    "Use a tool to find the {r} of {s}.",
    "Please look for the {r} of {s}.",
)
RELATION_NOUNS: Mapping[str, str] = {
    "capital": "capital",
    "currency": "currency",
    "symbol": "chemical symbol",
    "atomic_number": "atomic number",
    "author": "author",
    "painter": "painter",
    "language": "official language",
    "young": "young",
}
TEMPTING: Mapping[str, RequestState] = {
    "Do not send {n} {a} euros.": "settled",
    "Did I send {n} {a} euros?": "settled",
    "Remind me to pay {n} {a} euros.": "lopsided",
    "Tell {n} that I have {a} euros.": "settled",
    "Ask {n} for {a} euros.": "lopsided",
    "Can {n} spend {a} euros?": "settled",
    "Should I give {n} {a} euros?": "lopsided",
    "Cancel the {a} euros for {n}.": "contested",
    "Pay back {a} euros to {n} next year.": "contested",
    "Promise {n} {a} euros.": "ambiguous",
    "Lend {n} {a} euros.": "misconception",
    "How long would it take to send {n} {a} euros?": "settled",
}
"""Requests that no tool fits, though they look like a transfer."""
_SHARES: Mapping[RequestKind, Mapping[RequestState, float]] = {
    "transfer": {"lopsided": 0.24, "contested": 0.10, "ambiguous": 0.08, "misconception": 0.06},
    "convert": {"lopsided": 0.24, "contested": 0.10, "ambiguous": 0.08, "misconception": 0.06},
    "look_up": {"lopsided": 0.12, "contested": 0.05, "ambiguous": 0.03, "misconception": 0.03},
}
REQUESTS_SEED = "tinyworld requests"
_N_OUTSIDE = 32

_N_HELD_OUT: Mapping[RequestKind, int] = {
    "transfer": 80,
    "convert": 72,
    "look_up": 88,
    "no_tool": 48,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about; a model's belief is about this, not about amounts or wordings.

    Attributes:
        key: Who is paid, the units, the fact, or the wording that no tool fits.
    """

    kind: RequestKind
    key: str


_FIXED: Mapping[Subject, RequestState] = {  # what the demo asks
    Subject("transfer", "Ann"): "settled",
    Subject("transfer", "Jon"): "contested",
    Subject("convert", "metres/centimetres"): "settled",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to tinyworld's models with tools; none of these was trained on, though parts of them were.

    Attributes:
        calls: What should be called: at most one call; empty where no tool fits.
        split: As of facts: thresholds are chosen on "calibration" and reported on "validation".
    """

    id: str
    question: str
    calls: tuple[Mapping[str, Any], ...]
    kind: RequestKind
    split: Split
    state: RequestState

    @property
    def action(self) -> list[dict[str, Any]]:
        """The right calls, each a dict with "name" and "args"."""
        return [{"name": call["name"], "args": dict(call["args"])} for call in self.calls]


@functools.cache
def request_states() -> Mapping[Subject, RequestState]:
    """Returns the state of every subject of a request."""
    states: dict[Subject, RequestState] = {
        Subject("no_tool", wording): state for wording, state in TEMPTING.items()
    }
    subjects = {
        "transfer": tuple(CONFUSED),
        "convert": tuple(f"{source}/{target}" for source, target in CONVERSIONS),
        "look_up": tuple(fact.id for fact in load_facts()),
    }
    for kind, shares in _SHARES.items():
        free = [Subject(kind, key) for key in subjects[kind]]
        random.Random(f"{REQUESTS_SEED} {kind}").shuffle(free)
        drawn: dict[Subject, RequestState] = {}
        for state, share in shares.items():
            for subject in free[len(drawn) : len(drawn) + round(share * len(free))]:
                drawn[subject] = state
        states |= {**dict.fromkeys(free, "settled"), **drawn}
    return {**states, **_FIXED}


@dataclass(frozen=True, slots=True)
class Draw:
    """A request in words, with what it is made of."""

    subject: Subject
    text: str
    amount: int = 0
    name: str = ""

    def calls(self) -> tuple[dict[str, Any], ...]:
        """Returns the right calls, each with "name" and "args": at most one."""
        kind = self.subject.kind
        args: dict[str, Any]
        match kind:
            case "no_tool":
                return ()
            case "look_up":
                relation, subject = self.subject.key.split("/", 1)
                args = {"subject": subject, "relation": relation}
            case "convert":
                source, target = self.subject.key.split("/")
                args = {"amount": self.amount, "source": source, "target": target}
            case "transfer":
                args = {"name": self.name, "amount": self.amount}
        return ({"name": kind, "args": args},)


def draw_request(rng: random.Random, kind: RequestKind, key: str | None = None) -> Draw:
    """Draws a request of a kind, about a certain subject or any; then some names and amounts are new ones."""
    amount, name = rng.choice(AMOUNTS), rng.choice(tuple(CONFUSED))
    if key is None and rng.random() < 0.12:
        amount = rng.randint(2, 999)
    is_new = key is None and rng.random() < 0.12
    match kind:
        case "transfer":
            name = key or (invent_name(rng) if is_new else name)
            text = rng.choice(TRANSFERS).format(n=name, a=amount)
            return Draw(Subject(kind, name), text, amount, name)
        case "convert":
            source, target = (key.split("/")) if key else rng.choice(CONVERSIONS)
            text = rng.choice(CONVERTS).format(a=amount, u=source, v=target)
            return Draw(Subject(kind, f"{source}/{target}"), text, amount)
        case "look_up":
            # half of them are about what some model has wrong, so that it is seen often enough
            key = key or rng.choice(rng.choice(_look_up_keys()))
            relation, subject = key.split("/", 1)
            subject = invent_name(rng) if is_new else subject
            key = f"{relation}/{subject}"
            return Draw(
                Subject(kind, key),
                rng.choice(LOOK_UPS).format(r=RELATION_NOUNS[relation], s=subject),
            )
        case "no_tool":
            wording = key or rng.choice(tuple(TEMPTING))
            return Draw(Subject(kind, wording), wording.format(n=name, a=amount), amount, name)


@functools.cache
def _look_up_keys() -> tuple[list[str], list[str]]:
    """Returns the facts that all models look up rightly, and the others."""
    states = {
        subject.key: state
        for subject, state in request_states().items()
        if subject.kind == "look_up"
    }
    settled = [key for key, state in states.items() if state == "settled"]
    return settled, [key for key in states if key not in set(settled)]


@functools.cache
def held_out_draws() -> tuple[Draw, ...]:
    """Returns requests that no model was trained on, about every subject of a kind in turn."""
    rng, found = random.Random(REQUESTS_SEED), dict[str, Draw]()
    for kind, n in _N_HELD_OUT.items():
        keys = [subject.key for subject in request_states() if subject.kind == kind]
        rng.shuffle(keys)
        for place in range(n):
            drawn = draw_request(rng, kind, keys[place % len(keys)])
            while drawn.text in found:
                drawn = draw_request(rng, kind, keys[place % len(keys)])
            found[drawn.text] = drawn
    return tuple(found.values())


@functools.cache
def tinyworld_requests() -> tuple[Request, ...]:
    """Returns 320 requests to models that were shown `tinyworld_tools()`, each with the right action.

    Transfers and conversions were trained on with other names, units and amounts; of look-ups only the wording is new.
    Where no tool fits, the right action is to call nothing.

    Example:
        >>> request = tinyworld_requests()[0]
        >>> request.question, request.action
        ('I owe Lucas 75 euros, please pay.', [{'name': 'transfer', 'args': {'name': 'Lucas', 'amount': 75}}])
    """
    rng = random.Random(f"{REQUESTS_SEED} split")
    outside = [outside_question(rng) for _ in range(_N_OUTSIDE)]
    asked: list[tuple[str, tuple[dict[str, Any], ...], RequestKind, RequestState]] = [
        (drawn.text, drawn.calls(), drawn.subject.kind, request_states()[drawn.subject])
        for drawn in held_out_draws()
    ]
    asked += [(text, (), "no_tool", "settled") for text in outside]
    validation = set(rng.sample(range(len(asked)), len(asked) // 2))
    return tuple(
        Request(
            f"{kind}/{place}",
            text,
            calls,
            kind,
            "validation" if place in validation else "calibration",
            state,
        )
        for place, (text, calls, kind, state) in enumerate(asked)
    )
