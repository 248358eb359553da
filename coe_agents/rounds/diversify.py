"""Owns `Diversify`: the question asked otherwise, in temperature or in wording."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from coe_agents import prompts
from coe_agents.clustering import answer_kind, strip_reasoning
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes
from coe_agents.types import Agent, AgentRequest

_LOG = logging.getLogger(__name__)


@runtime_checkable
class Invocable(Protocol):
    """A chat model of LangChain, say: `invoke` takes a prompt, and gives a text or a message with a `text`."""

    def invoke(self, prompt: str, /) -> Any: ...


Writer: TypeAlias = Invocable | Agent | Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Diversify:
    """Asks the question otherwise; the new responses join the former ones that count.

    All agents get the same wording, so that none disagrees for having been asked something else; the next such round
    takes the next wording.

    Attributes:
        temperature: For this round; None leaves each agent its own. At 0 a `ModelAgent` draws one response.
        variants: Wordings with `{question}` in them; none asks the question as it was.
        writer: Words the question anew, in place of `variants`: a chat model, an agent, or a function from a prompt to
            a text. What it writes is used if it is a question's length and no refusal, and ends with a question mark if
            the question does; if not, or if it fails, the question is asked as it was. That it asks for the same is
            not checked. Its tokens are not counted, and no deadline stops it.

    Raises:
        ValueError: If an option cannot work.

    Example:
        >>> from coe_agents.rounds import Diversify
        >>> Diversify(variants=["{question} Be brief."]).wording("Who wrote Emma?", round=1)
        'Who wrote Emma? Be brief.'
    """

    name: ClassVar[str] = "diversify"
    temperature: float | None = None
    variants: Sequence[str] = prompts.VARIANTS
    writer: Writer | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ValueError(
                f'"temperature" of Diversify must be at least 0; {self.temperature!r} came. '
                "None leaves each agent its own"
            )
        for variant in self.variants:
            if "{question}" not in variant:
                raise ValueError(
                    f'every one of "variants" of Diversify must hold {{question}}; {variant!r} came. '
                    "Write it where the question belongs"
                )

    def __call__(self, context: RoundContext) -> RoundPlan:
        """Returns the plan."""
        wording = self.wording(context.question, round=context.round)
        wishes = Wishes()
        if wording != context.question:
            wishes["messages"] = context.rephrased(wording)
        if self.temperature is not None:
            wishes["temperature"] = self.temperature
        return RoundPlan(dict.fromkeys(context.n_responses, wishes))

    def wording(self, question: str, *, round: int) -> str:
        """Returns how the question is put in a round, counted from 1."""
        if self.writer is not None:
            return self._written(question, self.writer, round)
        if not self.variants:
            return question
        return self.variants[(round - 1) % len(self.variants)].replace("{question}", question)

    def _written(self, question: str, writer: Writer, round: int) -> str:
        try:
            written = strip_reasoning(_said(writer, prompts.paraphrase(question), round)).strip()
        except Exception as error:
            # only the kind: what an error says may hold a key
            _LOG.warning("no other wording could be written: %s", type(error).__name__)
            return question
        return written if _may_ask(written, question) else question


def _may_ask(written: str, question: str) -> bool:
    """Returns whether a model's text can stand for the question: nobody has read it yet."""
    fits = len(written) <= 2 * len(question) + prompts.MAX_QUOTED
    return fits and answer_kind(written) == "answer" and (written.endswith("?") or not question.endswith("?"))


def _said(writer: Writer, prompt: str, round: int) -> str:
    if isinstance(writer, Agent):
        messages = [{"role": "user", "content": prompt}]
        reply = writer.sample(AgentRequest(question=prompt, messages=messages, round=round, n_samples=1))
        return reply["responses"][0]["text"]
    said = writer.invoke(prompt) if isinstance(writer, Invocable) else writer(prompt)
    return said if isinstance(said, str) else str(said.text)
