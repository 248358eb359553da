"""Owns tinyworld as a dataset."""

from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets import Question, QuestionsOnDisk
from coe_agents.evaluation.datasets.on_disk import on_disk
from coe_agents.tinyworld.facts import load_facts

_SPLITS = ("calibration", "validation")


def tinyworld_questions(split: str = "validation", *, seed: int = 0) -> QuestionsOnDisk:
    """Returns the questions of one half of the facts, in an order that the seed draws.

    Raises:
        ConfigurationError: If `split` is not one of the two.
    """
    if split not in _SPLITS:
        raise ConfigurationError(f'tinyworld has no split "{split}"', hint=f"Its splits are {' and '.join(_SPLITS)}")
    questions = [Question(fact.id, fact.question, fact.references) for fact in load_facts() if fact.split == split]
    return QuestionsOnDisk("tinyworld", f"tinyworld, {split}", on_disk(questions, seed=seed), len(questions))
