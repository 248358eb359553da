"""Owns tinyworld as a dataset, beside all others."""

from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets import Question, QuestionsOnDisk, open_questions
from coe_agents.evaluation.datasets.on_disk import on_disk
from coe_agents.tinyworld.facts import load_facts

_SPLITS = ("calibration", "validation")


def find_questions(dataset: str, split: str | None, *, seed: int) -> QuestionsOnDisk:
    """Returns the questions of tinyworld or of any dataset that `open_questions` reads, in the order of a seed."""
    if dataset != "tinyworld":
        return open_questions(dataset, split=split, seed=seed)
    chosen = split or "validation"
    questions = tinyworld_questions(chosen)
    return QuestionsOnDisk(f"tinyworld, {chosen}", on_disk(questions, seed=seed), len(questions))


def tinyworld_questions(split: str = "validation") -> tuple[Question, ...]:
    """Returns the questions of one half of the facts.

    Raises:
        ConfigurationError: If `split` is not one of the two.
    """
    if split not in _SPLITS:
        raise ConfigurationError(f'tinyworld has no split "{split}"', hint=f"Its splits are {' and '.join(_SPLITS)}")
    return tuple(Question(fact.id, fact.question, fact.references) for fact in load_facts() if fact.split == split)
