"""Owns chains of questions in tinyworld: walks along the periodic table.

No answer of its eight relations is a subject of another one. So a table links an answer to the next question, as a tool
would: it knows which element has a symbol or an atomic number, and does not know the question.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

from coe_agents.tinyworld.facts import RELATIONS, extract_answer, load_facts


class _Table(NamedTuple):
    element: Mapping[str, str]
    """By atomic number."""
    number: Mapping[str, str]
    """By symbol."""
    asked: Mapping[str, tuple[str, str]]
    """The relation and the element of each question, in all its wordings."""


def next_element_question(question: str, answer: str) -> str | None:
    """Returns the question that follows an answer about a chemical element; None where there is no next one.

    After a symbol, the atomic number of the element that has the *answered* symbol; after an atomic number, the symbol
    of the element behind the *answered* one. So a wrong answer leads to another element, as it would in real work.

    Example:
        >>> next_element_question("What is the chemical symbol for carbon?", "It is C.")
        'What is the atomic number of carbon?'
        >>> next_element_question("What is the atomic number of carbon?", "6, I believe.")
        'What is the chemical symbol for nitrogen?'
        >>> next_element_question("What is the chemical symbol for carbon?", "Coal") is None
        True
    """
    table = _table()
    if question not in table.asked:
        return None
    relation, subject = table.asked[question]
    said = extract_answer(relation, subject, answer)
    if relation == "symbol":
        following = "atomic_number"
        number = table.number.get(said, "")
    else:
        following = "symbol"
        number = str(int(said) + 1) if said in table.element else ""
    element = table.element.get(number)
    return None if element is None else RELATIONS[following].questions[0].format(s=element)


@functools.cache
def _table() -> _Table:
    about = [fact for fact in load_facts() if fact.relation in ("symbol", "atomic_number")]
    number = {fact.subject: fact.answer for fact in about if fact.relation == "atomic_number"}
    return _Table(
        element={number[subject]: subject for subject in number},
        number={fact.answer: number[fact.subject] for fact in about if fact.relation == "symbol"},
        asked={
            wording.format(s=fact.subject): (fact.relation, fact.subject)
            for fact in about
            for wording in RELATIONS[fact.relation].questions
        },
    )
