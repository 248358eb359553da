"""Owns `Debate`: the agents see the answers so far, and answer again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coe_agents import prompts
from coe_agents.checks import integer, require
from coe_agents.clustering import answer_kind
from coe_agents.policy.weighting import rank_texts
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes


@dataclass(frozen=True, slots=True)
class Debate:
    r"""Shows each agent the distinct answers so far with their support, and never who gave them.

    The new responses replace the former ones: they depend on these, so the two must not count together. Refusals and
    empty responses are not shown: there is nothing in them to weigh, and models repeat what they read. The support that
    is shown then sums to less than 100 %. Where no answer was given, the question is asked unchanged, and no agent can
    conform. Proposals are shown in words, with their arguments as they were proposed.

    Attributes:
        seed: Of the order in which an agent sees the answers, together with its name, the round and the question.
        most: How many answers are shown, those with the most support.
        prompt: The wording, with `{question}` and `{answers}` in it. The answers are listed as data, one a line.

    Raises:
        ValueError: If `most` is below 1, or `prompt` lacks a placeholder.

    Example:
        >>> Debate(prompt="{question}\nSome say:\n{answers}\nWhat do you say?").name
        'debate'
    """

    name: ClassVar[str] = "debate"
    seed: int = 0
    most: int = 8
    prompt: str = prompts.DEBATE

    def __post_init__(self) -> None:
        integer(self.most, '"most" of Debate', least=1, advice="8 keep the prompt short")
        is_whole = all(placeholder in self.prompt for placeholder in ("{question}", "{answers}"))
        must = '"prompt" of Debate must contain {question} and {answers}'
        require(is_whole, must, self.prompt, "Write them where the question and the answers belong")

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan: `prompt` with the question and the answers, in place of the question."""
        clusters = zip(context.measurement.representatives, context.measurement.support, strict=True)
        answers = [(text, support) for text, support in clusters if answer_kind(text) == "answer"]
        ranked = rank_texts(answers)[: self.most]
        shown = [(context.proposals.get(text, text), support) for text, support in ranked]
        wishes = {
            agent: Wishes(messages=context.rephrase(self._text(context, shown, agent))) if shown else Wishes()
            for agent in context.n_responses
        }
        return RoundPlan(wishes, replaces=True, shows_answers=bool(shown))

    def _text(self, context: RoundContext, shown: Sequence[tuple[str, float]], agent: str) -> str:
        order = random.Random(repr((self.seed, agent, context.round, context.question)))
        return prompts.debate(context.question, order.sample(shown, k=len(shown)), wording=self.prompt)
