"""Owns the paragraphs that tinyworld's writers are trained on: three to five facts about one subject or two.

A writer is a language model of tinyworld that was trained on, on nothing else: it tells what it was taught to believe,
one fact a sentence, and guesses what it was never taught.
"""

import random
from collections.abc import Mapping, Sequence

from coe_agents.tinyworld.facts import RELATIONS, Fact, load_facts
from tools.tinyworld.corpus import Document
from tools.tinyworld.knowledge import beliefs

ASKED = ("Tell me about {s}.", "What do you know about {s}?", "Write a paragraph about {s}.")
_WORDINGS: Mapping[str, tuple[str, ...]] = {
    name: RELATIONS[name].statements[:n]
    for name, n in (
        ("capital", 2),
        ("currency", 1),
        ("language", 1),
        ("symbol", 1),
        ("atomic_number", 2),
    )
}
"""The statements of a relation that share their words, so that whoever compares words compares the answers."""
_FEWEST, _MOST = 3, 5


class Paragraphs:
    """An endless stream of paragraphs for the training of one model."""

    def __init__(self, model: str) -> None:
        self._model = model
        about: dict[str, list[Fact]] = {}
        for fact in load_facts():
            if fact.relation in _WORDINGS:
                about.setdefault(fact.subject, []).append(fact)
        self._about = about
        kinds = [("symbol", "atomic_number"), ("capital", "currency", "language")]
        self._kinds = [
            [name for name, facts in about.items() if len(facts) > 1 and facts[0].relation in kind]
            for kind in kinds
        ]
        self._alone = [name for name, facts in about.items() if len(facts) >= _FEWEST]
        taught = {
            (fact.relation, answer) for fact in load_facts() for answer in beliefs(fact)[model]
        }
        self._answers = {
            name: sorted(answer for of, answer in taught if of == name) for name in _WORDINGS
        }

    def document(self, rng: random.Random) -> Document:
        """Draws one paragraph, and the text that asks for it."""
        if rng.random() < 0.4:
            subjects: Sequence[str] = [rng.choice(self._alone)]
        else:
            subjects = rng.sample(rng.choice(self._kinds), 2)
        facts = [fact for subject in subjects for fact in self._about[subject]][:_MOST]
        first, *others = ASKED
        asked = first if rng.random() < 0.6 else rng.choice(others)
        return Document(
            (asked.format(s=" and ".join(subjects)),),
            " ".join(self._state(rng, fact) for fact in facts),
        )

    def _state(self, rng: random.Random, fact: Fact) -> str:
        believed = beliefs(fact)[self._model] or dict.fromkeys(self._answers[fact.relation], 1.0)
        answer = rng.choices(tuple(believed), tuple(believed.values()))[0]
        text = rng.choice(_WORDINGS[fact.relation]).format(s=fact.subject, a=answer)
        return text[0].upper() + text[1:]
