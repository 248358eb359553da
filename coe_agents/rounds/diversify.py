"""Owns `Diversify`: the question at another temperature, or in other words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coe_agents import prompts
from coe_agents.checks import number, require
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes


@dataclass(frozen=True, slots=True)
class Diversify:
    """Asks the question at another temperature or in other words; the new responses join the former ones.

    All agents get the same wording, so that they cannot disagree because of it; the next such round uses the next
    wording.

    Attributes:
        temperature: For this round; None keeps each agent's own. At 0 a `ModelAgent` samples one response.
        variants: Wordings with `{question}` in them; an empty sequence asks the question unchanged.

    Raises:
        ValueError: If an option is out of range, or a variant lacks `{question}`.

    Example:
        >>> from coe_agents.rounds import Diversify
        >>> Diversify(variants=["{question} Be brief."]).wording("Who wrote Emma?", round=1)
        'Who wrote Emma? Be brief.'
    """

    name: ClassVar[str] = "diversify"
    temperature: float | None = None
    variants: Sequence[str] = prompts.VARIANTS

    def __post_init__(self) -> None:
        if self.temperature is not None:
            number(self.temperature, '"temperature" of Diversify', least=0, advice="None keeps each agent's own")
        must = 'every one of "variants" of Diversify must contain {question}'
        for variant in self.variants:
            require("{question}" in variant, must, variant, "Write it where the question belongs")

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan."""
        wording = self.wording(context.question, round=context.round)
        wishes = Wishes()
        if wording != context.question:
            wishes["messages"] = context.rephrase(wording)
        if self.temperature is not None:
            wishes["temperature"] = self.temperature
        return RoundPlan(dict.fromkeys(context.n_responses, wishes))

    def wording(self, question: str, *, round: int) -> str:
        """Returns the wording of the question in a round, counted from 1."""
        if not self.variants:
            return question
        return self.variants[(round - 1) % len(self.variants)].replace("{question}", question)
