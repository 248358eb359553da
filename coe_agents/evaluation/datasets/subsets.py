"""Owns choosing questions by a seed: those that are asked, and the examples that a prompt shows."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import islice

from coe_agents._plurals import quantity
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets.question import Question


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
