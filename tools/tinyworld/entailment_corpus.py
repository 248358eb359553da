"""Owns the pairs that the entailment model of tinyworld is trained on.

Names are drawn at random and never repeat a list, so the model must compare what it reads; no fact of tinyworld is
used.
"""

import random
from typing import NamedTuple

from coe_agents.tinyworld.facts import ANSWERS, REFUSALS, RELATIONS, Relation
from tools.tinyworld.outside import WORDS, invent_name, outside_question

LABELS = ("contradiction", "neutral", "entailment")

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Pair(NamedTuple):
    """Two question-prefixed answers and whether the first entails the second."""

    premise: str
    hypothesis: str
    label: str


def entailment_pair(rng: random.Random, *, progress: float = 1.0) -> Pair:
    """Draws one pair.

    The progress of training, from 0 to 1, leads from bare names that differ much to worded answers after a question and
    names that differ little; without these stages the model learns to compare names very slowly.
    """
    key = rng.choice(tuple(RELATIONS))
    relation, subject = RELATIONS[key], _name(rng)
    question = (
        outside_question(rng)
        if rng.random() < 0.05
        else rng.choice(relation.questions).format(s=subject)
    )
    after_question, in_words = rng.choices(
        ((False, False), (False, True), (True, False), (True, True)), _form_shares(progress)
    )[0]

    def say(answer: str) -> str:
        text = _word_answer(rng, relation, subject, answer) if in_words else answer
        return f"{question} {text}" if after_question else text

    answer, draw = _answer(rng, key, subject), rng.random()
    if draw < 0.44:
        return Pair(say(answer), say(answer), "entailment")
    if draw < 0.90:
        other = (
            _near(rng, answer)
            if rng.random() < 0.1 + 0.3 * min(1.0, 2 * progress)
            else _answer(rng, key, subject)
        )
        return Pair(say(answer), say(other), "entailment" if other == answer else "contradiction")
    other = _answer(rng, key, subject)
    if draw < 0.94:  # one answer is less specific than the other
        either = " or ".join(rng.sample((answer, other), 2))
        if rng.random() < 0.5:
            return Pair(say(answer), say(either), "entailment")
        return Pair(say(either), say(answer), "neutral" if answer != other else "entailment")
    refusal = f"{question} {rng.choice(REFUSALS)}"
    if rng.random() < 0.3:
        return Pair(refusal, f"{question} {rng.choice(REFUSALS)}", "entailment")
    pair = (refusal, say(answer))
    return Pair(*(pair if rng.random() < 0.5 else pair[::-1]), "neutral")


def _form_shares(progress: float) -> tuple[float, float, float, float]:
    """Returns how often answers are bare, in words, bare after the question, and in words after the question."""
    if progress < 0.15:
        return (0.8, 0.2, 0.0, 0.0)
    if progress < 0.3:
        return (0.3, 0.3, 0.3, 0.1)
    if progress < 0.45:
        return (0.1, 0.2, 0.3, 0.4)
    return (0.04, 0.03, 0.13, 0.8)


def tokenizer_texts() -> list[str]:
    """Returns texts to train the tokenizer on: the wordings often, names seldom, so that names stay in small pieces."""
    rng = random.Random("entailment tokenizer")
    texts = (
        text
        for relation in RELATIONS.values()
        for text in (*relation.questions, *relation.statements)
    )
    wordings = [text.format(s="x", a="y") for text in texts]
    return [*wordings, *(text.format(a="y") for text in ANSWERS), *REFUSALS] * 20 + [
        _name(rng) for _ in range(300)
    ]


def _word_answer(rng: random.Random, relation: Relation, subject: str, answer: str) -> str:
    wording = rng.choice(relation.statements) if rng.random() < 0.25 else rng.choice(ANSWERS)
    text = wording.format(a=answer, s=subject)
    return text if wording.startswith("{a}") or rng.random() < 0.1 else text[0].upper() + text[1:]


def _name(rng: random.Random) -> str:
    """Draws a name in any form that answers and subjects have: words, initials, numbers, symbols, foreign letters."""
    draw = rng.random()
    if draw < 0.06:
        return _number(rng)
    if draw < 0.12:
        return _symbol(rng)
    if draw < 0.34:
        return invent_name(rng).lower()
    if draw < 0.44:
        name = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(3, 9)))
        return name.capitalize() if rng.random() < 0.7 else name
    if draw < 0.54:
        return f"{rng.choice(_LETTERS).upper()}. {rng.choice(_LETTERS).upper()}. {invent_name(rng)}"
    if draw < 0.70:
        link = rng.choice((" ", " ", " de ", " van ", "-", " of ", " al-"))
        return f"{invent_name(rng)}{link}{invent_name(rng)}"
    if draw < 0.75:
        name = invent_name(rng)
        at = rng.randrange(len(name))
        return name[:at] + rng.choice("éèüöäíóáãçñşłčž'") + name[at + 1 :]
    if draw < 0.80:
        return f"{rng.choice(('The', 'the', 'New', 'San', 'A', 'Port', 'Saint'))} {_coin_word(rng).capitalize()}"
    if draw < 0.86:
        return (
            f"{_coin_word(rng).capitalize()} {rng.choice(('of ', 'and ', '', ''))}{_coin_word(rng)}"
        )
    if draw < 0.93:
        return _coin_word(rng).capitalize()
    return invent_name(rng)


def _answer(rng: random.Random, relation: str, subject: str) -> str:
    """Draws a name as an answer, more often in the form of this relation's answers."""
    special = {"atomic_number": _number, "symbol": _symbol}.get(relation)
    if special and rng.random() < 0.6:
        return special(rng)
    if (
        rng.random() < 0.1
    ):  # answers often hold a part of the subject, as in "Namibian dollar" or "Kuwait City"
        part = subject.rsplit(maxsplit=1)[-1][: rng.randint(3, 12)]
        return (
            part
            + rng.choice(("n", "ian", "ese", "i", "ish", ""))
            + rng.choice(("", f" {_coin_word(rng)}", " City"))
        )
    return _name(rng)


def _coin_word(rng: random.Random) -> str:
    """Draws a word, or the beginning of one with the end of another, so that its letters are plausible together."""
    first, second = rng.choice(WORDS), rng.choice(WORDS)
    return (
        first if rng.random() < 0.3 else first[: rng.randint(1, 5)] + second[-rng.randint(2, 5) :]
    )


def _number(rng: random.Random) -> str:
    return str(rng.randint(1, 150))


def _symbol(rng: random.Random) -> str:
    first: str = rng.choice(_LETTERS)
    second: str = rng.choice(("", *_LETTERS))
    return first.upper() + second


def _near(rng: random.Random, name: str) -> str:
    """Returns `name` with a letter or a word changed, dropped or added: another name that looks much the same."""
    words = name.split()
    draw = rng.random()
    if draw < 0.35 and len(words) > 1:
        words[rng.randrange(len(words))] = invent_name(rng)
        return " ".join(words)
    if name.isdigit():
        return str(max(1, int(name) + rng.choice((-10, -2, -1, 1, 2, 10))))
    at = rng.randrange(len(name))
    if draw < 0.75:
        letter = rng.choice(_LETTERS)
        return name[:at] + (letter.upper() if name[at].isupper() else letter) + name[at + 1 :]
    if draw < 0.87 and len(name) > 1:
        return (name[:at] + name[at + 1 :]).strip() or name
    return name[:at] + rng.choice(_LETTERS) + name[at:]
