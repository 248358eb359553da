"""Owns `Diversify`: the question at another temperature, or in other words."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from coe_agents import prompts
from coe_agents.checks import number, require
from coe_agents.clustering import answer_kind, strip_reasoning
from coe_agents.rounds.strategy import RoundContext, RoundPlan, Wishes
from coe_agents.text import MAX_QUOTED
from coe_agents.types import Agent, AgentRequest

_LOG = logging.getLogger(__name__)


@runtime_checkable
class Invocable(Protocol):
    """For example a LangChain chat model: `invoke` takes a prompt, and returns a text or a message with a `text`."""

    def invoke(self, prompt: str, /) -> Any: ...


Writer: TypeAlias = Invocable | Agent | Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Diversify:
    """Asks the question at another temperature or in other words; the new responses join the former ones.

    All agents get the same wording, so that they cannot disagree because of it; the next such round uses the next
    wording.

    Attributes:
        temperature: For this round; None keeps each agent's own. At 0 a `ModelAgent` samples one response.
        variants: Wordings with `{question}` in them; an empty sequence asks the question unchanged.
        writer: Rewords the question, instead of `variants`: a chat model, an agent, or a function from a prompt to a
            text. The text is used if it has the length of a question, is not a refusal, and ends with a question mark
            if the question does; otherwise, or if the writer fails, the question is asked unchanged. Whether it asks
            for the same thing is not checked. Its tokens are not counted, and no deadline stops it.

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
    writer: Writer | None = None

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
        if self.writer is not None:
            return self._reword(question, self.writer, round)
        if not self.variants:
            return question
        return self.variants[(round - 1) % len(self.variants)].replace("{question}", question)

    def _reword(self, question: str, writer: Writer, round: int) -> str:
        try:
            written = strip_reasoning(_ask_writer(writer, prompts.paraphrase(question), round)).strip()
        except Exception as error:
            # only the type: the text of an error may contain a key
            _LOG.warning("the question could not be reworded: %s", type(error).__name__)
            return question
        return written if _may_ask(written, question) else question


def _may_ask(written: str, question: str) -> bool:
    """Returns whether a model's text, which no person has read, can replace the question."""
    fits = len(written) <= 2 * len(question) + MAX_QUOTED
    return fits and answer_kind(written) == "answer" and (written.endswith("?") or not question.endswith("?"))


def _ask_writer(writer: Writer, prompt: str, round: int) -> str:
    if isinstance(writer, Agent):
        messages = [{"role": "user", "content": prompt}]
        reply = writer.sample(AgentRequest(question=prompt, messages=messages, round=round, n_samples=1))
        return reply["responses"][0]["text"]
    written = writer.invoke(prompt) if isinstance(writer, Invocable) else writer(prompt)
    return written if isinstance(written, str) else str(written.text)
