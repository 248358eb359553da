"""Owns the question with its known answers, and a set of distinct ones."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from coe_agents.errors import DatasetError

Kind = Literal["triviaqa", "squad", "nq_open", "truthfulqa", "questions", "tinyworld"]
Place = Callable[[], str]
"""Returns the place of a record; called only to report it, since a line inside a JSON document must be searched for."""


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


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of a dataset, each once.

    Attributes:
        kind: Which prompt asks them.
        source: The file, or the dataset's name on the hub with its configuration and split.
        questions: In the order of the dataset.
        n_records: How many records were read: more than questions where some repeat one, as in TriviaQA on the hub.
    """

    kind: Kind
    source: str
    questions: tuple[Question, ...]
    n_records: int


def to_set(source: str, records: Iterable[tuple[Place, Kind, Question]]) -> QuestionSet:
    """Returns the questions of one dataset; those that repeat an earlier one give it their references.

    Raises:
        DatasetError: If there is no record, records are of different kinds, or two questions have the same id.
    """
    found: dict[str, Question] = {}
    kinds: list[Kind] = []
    for place, kind, question in records:
        kinds.append(kind)
        if kind != kinds[0]:
            raise DatasetError(
                f'{place()}: this record is of the kind "{kind}", those before it are "{kinds[0]}"',
                hint="Check the names of its fields, or keep one kind to a file",
            )
        known = found.setdefault(question.id, question)
        if replace(known, references=()) != replace(question, references=()):
            raise DatasetError(
                f"{place()}: another question has the id {question.id!r} already",
                hint="Give every question an id of its own",
            )
        found[question.id] = replace(known, references=without_repeats([*known.references, *question.references]))
    if not kinds:
        raise DatasetError(f"{source} holds no record", hint="Check that the file is complete")
    return QuestionSet(kind=kinds[0], source=source, questions=tuple(found.values()), n_records=len(kinds))


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
