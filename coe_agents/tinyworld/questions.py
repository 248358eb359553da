"""Owns tinyworld as a dataset."""

from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets import Question, QuestionSet
from coe_agents.tinyworld.facts import load_facts

_SPLITS = ("calibration", "validation")


def tinyworld_questions(split: str = "validation") -> QuestionSet:
    """Returns the questions of one half of the facts.

    Raises:
        ConfigurationError: If `split` is not one of the two.
    """
    if split not in _SPLITS:
        raise ConfigurationError(f'tinyworld has no split "{split}"', hint=f"Its splits are {' and '.join(_SPLITS)}")
    questions = tuple(Question(fact.id, fact.question, fact.references) for fact in load_facts() if fact.split == split)
    return QuestionSet(source=f"tinyworld, {split}", questions=questions, n_records=len(questions))
