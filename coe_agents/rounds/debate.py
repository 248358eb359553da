"""Owns `Debate`: the agents see what was answered, and answer anew."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coe_agents import prompts
from coe_agents.clustering import answer_kind
from coe_agents.policy import Measurement
from coe_agents.policy.weighing import ranked
from coe_agents.rounds.plan import RoundContext, RoundPlan, Wishes


@dataclass(frozen=True, slots=True)
class Debate:
    """Shows each agent the distinct answers so far with their support, and never who gave them.

    The new responses replace the former ones: they depend on each other, so both must not count together. Refusals and
    empty responses are not shown: they are no answers to weigh, and models repeat what they read. Their support is
    missing from what is shown, which then sums to less than 100 %. Where no answer was given, the question is asked as
    it was, and nobody can conform.

    Attributes:
        seed: Of the order in which an agent sees the answers, together with its name, the round and the question.
        most: How many answers are shown, those with the most support.

    Raises:
        ValueError: If `most` is below 1.
    """

    name: ClassVar[str] = "debate"
    seed: int = 0
    most: int = 8

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f'"most" of Debate must be at least 1; {self.most!r} came. 8 keep the prompt short')

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan: the prompt of `coe_agents.prompts.debate` in place of the question."""
        shown = shown_answers(context.measurement, most=self.most)
        wishes = {
            agent: Wishes(messages=context.rephrased(self._prompt(context, shown, agent))) if shown else Wishes()
            for agent in context.n_responses
        }
        return RoundPlan(wishes, replaces=True, shows_answers=bool(shown))

    def _prompt(self, context: RoundContext, shown: Sequence[tuple[str, float]], agent: str) -> str:
        order = random.Random(repr((self.seed, agent, context.round, context.question)))
        return prompts.debate(context.question, order.sample(shown, k=len(shown)))


def shown_answers(measurement: Measurement, *, most: int) -> list[tuple[str, float]]:
    """Returns one answer of each cluster with its support, the `most` supported ones, then by text; no refusal."""
    clusters = zip(measurement.representatives, measurement.support, strict=True)
    answers = [(text, support) for text, support in clusters if answer_kind(text) == "answer"]
    return ranked(answers)[:most]
