"""Owns the question with its known answers, the records of a dataset that hold some, and choosing some by a seed."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from coe_agents.errors import ConfigurationError
from coe_agents.text import quantity

Kind = Literal["triviaqa", "squad", "nq_open", "truthfulqa", "questions"]
Place = Callable[[], str]
"""Returns the place of a record; called only to report it, since a line inside a JSON document must be searched for."""


class ConflictError(ValueError):
    """Two questions of one id; the caller adds the place."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its known answers.

    Attributes:
        id: Its id in the dataset; derived from its text where the dataset has none.
        question: What is asked.
        references: The accepted answers, the main one first; empty if no accepted answer is known.
        context: The passage that holds the answer; None if it is not known.
        answerable: False where the passage does not hold the answer (SQuAD 2.0).
        tools: The schemas of the tools that the agents are shown, whose responses are proposals then; None for none.
    """

    id: str
    question: str
    references: tuple[str, ...]
    context: str | None = None
    answerable: bool = True
    tools: list[dict[str, Any]] | None = field(default=None, hash=False)


def from_plain(plain: Mapping[str, Any]) -> Question:
    """Returns the question of which `dataclasses.asdict` made a value of JSON."""
    return Question(**{**plain, "references": tuple(plain["references"])})


def merge(repeated: Sequence[Question]) -> Question:
    """Returns one question with the references of all.

    Raises:
        ConflictError: If they differ in more than that.
    """
    first = repeated[0]
    if any(replace(question, references=()) != replace(first, references=()) for question in repeated):
        raise ConflictError(f"questions of one id must be the same but for their references; got {first.id!r} twice")
    return replace(first, references=without_repeats(text for question in repeated for text in question.references))


def without_repeats(references: Iterable[str]) -> tuple[str, ...]:
    """Returns the references without those that only repeat one in other capitals.

    Example:
        >>> without_repeats(["Paris", "paris", "City of Paris"])
        ('Paris', 'City of Paris')
    """
    first: dict[str, str] = {}
    for reference in references:
        first.setdefault(reference.casefold(), reference)
    return tuple(first.values())


def examples_from(
    questions: Sequence[Question], k: int, *, seed: int, with_context: bool = False
) -> Callable[[Question], list[Question]]:
    """Returns a function that gives a question `k` others, drawn by the seed; never one of its own wording.

    Only questions with an answer are drawn, and with `with_context` only those with a passage.

    Raises:
        ConfigurationError: From that function, if there are not so many.

    Example:
        >>> questions = [Question(str(number), f"{number}?", ("!",)) for number in range(9)]
        >>> shown = examples_from(questions, 8, seed=0)(questions[3])
        >>> len(shown), questions[3] in shown
        (8, False)
    """
    drawn = sorted(
        (question for question in questions if can_be_example(question, with_context=with_context)),
        key=lambda question: draw_key("example", seed, question.id),
    )

    def examples(asked: Question) -> list[Question]:
        others = (other for other in drawn if other.id != asked.id and other.question != asked.question)
        shown = list(islice(others, k))
        if len(shown) < k:
            needed, found = quantity(k, "example is", "examples are"), quantity(len(shown), "other question")
            raise ConfigurationError(f"{needed} needed; only {found} can be shown", hint='Lower "--shots"')
        return shown

    return examples


def can_be_example(question: Question, *, with_context: bool) -> bool:
    """Whether a prompt can show a question with its answer."""
    return bool(question.references) and question.answerable and (question.context is not None or not with_context)


def draw_key(purpose: str, seed: int, id: str) -> bytes:
    """Returns what questions are sorted by: as if by chance, and by their ids alone.

    So the order of a file changes nothing, and the first few are the beginning of more.
    """
    return hashlib.sha256(repr((purpose, seed, id)).encode()).digest()
