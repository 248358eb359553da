"""Owns tinyworld as a dataset: its questions, the answer inside a wording, and whether it is true."""

import functools
from collections.abc import Mapping

from coe_agents.clustering.normalized import normalize_answer
from coe_agents.errors import ConfigurationError
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.sources import QuestionsOnDisk, on_disk, open_questions
from coe_agents.evaluation.scoring.correctness import Prediction, Rule
from coe_agents.tinyworld.facts import Fact, extract_answer, load_facts

_SPLITS = ("calibration", "validation")


def find_questions(
    dataset: str, split: str | None, *, seed: int, columns: Mapping[str, str] | None = None
) -> QuestionsOnDisk:
    """Returns the questions of tinyworld or of any dataset that `open_questions` reads, in the order of a seed."""
    if dataset != "tinyworld":
        return open_questions(dataset, split=split, seed=seed, columns=columns)
    chosen = split or "validation"
    questions = tinyworld_questions(chosen)
    return QuestionsOnDisk(f"tinyworld, {chosen}", on_disk(questions, seed=seed))


def tinyworld_questions(split: str = "validation") -> tuple[Question, ...]:
    """Returns the questions of one half of the facts."""
    if split not in _SPLITS:
        raise ConfigurationError(
            f'tinyworld has no split "{split}"', hint=f"Its splits are {' and '.join(_SPLITS)}"
        )
    return tuple(
        Question(fact.id, fact.question, fact.references)
        for fact in load_facts()
        if fact.split == split
    )


def tinyworld_criterion() -> Rule:
    """Returns the criterion by which an answer is right if it states a fact's answer in any of tinyworld's wordings.

    It needs no entailment model, so a clusterer's mistakes cannot hide behind it. Other questions have no verdict.
    """
    return Rule("tinyworld's facts", _is_right)


def _is_right(prediction: Prediction) -> bool | None:
    fact = _facts().get(prediction.question)
    if fact is None:
        return None
    said = normalize_answer(extract_answer(fact.relation, fact.subject, prediction.answer))
    return said in {normalize_answer(reference) for reference in fact.references}


@functools.cache
def _facts() -> Mapping[str, Fact]:
    return {fact.question: fact for fact in load_facts()}
