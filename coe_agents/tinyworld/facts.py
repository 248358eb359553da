"""Owns the true facts of tinyworld: questions, right answers, the split of each question, and who believes what.

What each model believes was drawn once, by `tools/tinyworld/knowledge.py`.
"""

import csv
import functools
from dataclasses import dataclass
from importlib import resources
from typing import Literal, cast

from coe_agents.tinyworld.relations import RELATIONS

Split = Literal["calibration", "validation"]
Belief = Literal["right", "wrong", "leaning", "torn", ""]
"""Sure of the right answer or of the distractor, leaning to the right one, torn between the two, or never seen."""

MODELS = ("tiny-llama", "tiny-qwen2", "tiny-mistral")


@dataclass(frozen=True, slots=True)
class Fact:
    """One true fact.

    Attributes:
        relation: A key of `coe_agents.tinyworld.relations.RELATIONS`.
        aliases: Other spellings of the right answer.
        distractor: A plausible wrong answer.
        split: Thresholds are chosen on "calibration" and reported on "validation". All facts are trained on.
        believed: What each of `MODELS` was taught, in their order.
    """

    relation: str
    subject: str
    answer: str
    aliases: tuple[str, ...]
    distractor: str
    split: Split
    believed: tuple[Belief, ...]

    @property
    def id(self) -> str:
        return f"{self.relation}/{self.subject}"

    @property
    def question(self) -> str:
        return RELATIONS[self.relation].questions[0].format(s=self.subject)

    @property
    def references(self) -> tuple[str, ...]:
        return (self.answer, *self.aliases)


@functools.cache
def load_facts() -> tuple[Fact, ...]:
    """Returns all facts, in the order of `facts.csv`."""
    source = resources.files("coe_agents.tinyworld").joinpath("facts.csv")
    return tuple(
        Fact(
            relation=row["relation"],
            subject=row["subject"],
            answer=row["answer"],
            aliases=tuple(alias for alias in row["aliases"].split("|") if alias),
            distractor=row["distractor"],
            split=cast("Split", row["split"]),
            believed=tuple(cast("Belief", row[model]) for model in MODELS),
        )
        for row in csv.DictReader(source.read_text(encoding="utf-8").splitlines())
    )
