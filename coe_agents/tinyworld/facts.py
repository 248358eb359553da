"""Owns the true facts of tinyworld: questions, right answers, and the split of each question."""

import csv
import functools
import random
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from coe_agents.tinyworld.wording import RELATIONS

Split = Literal["calibration", "validation"]

N_VALIDATION = 200
_SPLIT_SEED = "tinyworld split"


@dataclass(frozen=True, slots=True)
class Fact:
    """One true fact.

    Attributes:
        relation: A key of `coe_agents.tinyworld.wording.RELATIONS`.
        aliases: Other spellings of the right answer.
        distractor: A plausible wrong answer.
        split: Thresholds are chosen on "calibration" and reported on "validation". All facts are trained on.
    """

    relation: str
    subject: str
    answer: str
    aliases: tuple[str, ...]
    distractor: str
    split: Split

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
    rows = list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))
    ids = [f"{row['relation']}/{row['subject']}" for row in rows]
    validation = set(random.Random(_SPLIT_SEED).sample(ids, N_VALIDATION))
    answers = {
        relation: sorted({row["answer"] for row in rows if row["relation"] == relation}) for relation in RELATIONS
    }

    def fact(key: str, row: dict[str, str]) -> Fact:
        others = [answer for answer in answers[row["relation"]] if answer != row["answer"]]
        return Fact(
            relation=row["relation"],
            subject=row["subject"],
            answer=row["answer"],
            aliases=tuple(alias for alias in row["aliases"].split("|") if alias),
            distractor=row["distractor"] or random.Random(key).choice(others),
            split="validation" if key in validation else "calibration",
        )

    return tuple(fact(key, row) for key, row in zip(ids, rows, strict=True))
