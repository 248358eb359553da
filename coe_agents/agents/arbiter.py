"""Owns `Arbiter`: a stronger model that decides where the group did not."""

import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from coe_agents import prompts
from coe_agents._steps import Call, Steps, arun_steps, run_steps
from coe_agents.agents._requests.parse import is_cut
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.checks import require
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.errors import describe_error, is_control_flow
from coe_agents.rounds.strategy import rephrase
from coe_agents.text import quantity
from coe_agents.types import DECIDERS, Agent, AgentReply, AgentRequest, Candidate, EscalatedCase, Ruling

_RULING = re.compile(r"CHOICE: *(\d{1,9})\.?|ANSWER: *(\S.*)|(NONE)\.?", re.IGNORECASE)


class Arbiter(Runnable[EscalatedCase, Ruling]):
    """A model that is shown the question and the group's answers with their support, and decides; for `escalation=`.

    It chooses one of the answers, gives its own, or says "NONE", which abstains. Its reply must end with its ruling in
    the words of `coe_agents.prompts.arbitration`, and contain no other ruling; several samples must all rule alike.
    Otherwise, or if a reply was cut off or the model fails, the case stays escalated, with the reason.

    Args:
        model: A chat model, or "provider:model", sampled once at temperature 0; or an agent, such as a `ModelAgent`
            with settings of its own.
        name: Its name in `decided_by`, `tokens` and reasons.

    Raises:
        TypeError: If `model` is anything else.
        ValueError: If `name` is empty, "group" or "person", or `model` is a pipeline of langchain-huggingface.

    Example:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> Arbiter(FakeListChatModel(responses=["CHOICE: 2"]), name="judge")
        Arbiter('judge')
    """

    def __init__(self, model: BaseChatModel | Agent | str, *, name: str = "arbiter") -> None:
        require(bool(name.strip()), '"name" of Arbiter must not be empty', name, 'Omit it for "arbiter"')
        must = '"name" of Arbiter must not be "group" or "person", whom a gate trusts'
        require(name not in DECIDERS, must, name, "Rename it")
        self.name: str = name
        self._agent = model if isinstance(model, Agent) else ModelAgent(name, model, n_samples=1, temperature=0.0)

    def __repr__(self) -> str:
        return f"Arbiter({self.name!r})"

    def invoke(self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any) -> Ruling:
        """Asks the model, and returns its ruling."""
        return run_steps(self._steps(input, config))

    async def ainvoke(self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any) -> Ruling:
        """Asks the model, and returns its ruling; see `invoke`."""
        return await arun_steps(self._steps(input, config))

    def _steps(self, case: EscalatedCase, config: RunnableConfig | None) -> Steps[Ruling]:
        try:
            answers = [(candidate["answer"], candidate["support"]) for candidate in case["candidates"]]
            text = prompts.arbitration(case["question"], answers, regime=case["regime"])
            messages = rephrase(case["conversation"], text)
            request = AgentRequest(question=case["question"], messages=messages, round=0)
            reply: AgentReply = yield Call(self._agent.sample, self._agent.asample, (request, config))
            if is_cut(reply):
                found = self._leave_escalated("was cut off before it ruled")
            else:
                found = self._read([response["text"] for response in reply["responses"]], case["candidates"])
            found["usage"] = reply["usage"]
            return found
        except Exception as error:
            if is_control_flow(error):
                raise
            return self._leave_escalated(f"failed: {describe_error(error, self._agent)}")

    def _read(self, texts: list[str], candidates: list[Candidate]) -> Ruling:
        rulings = {_parse_ruling(text) for text in texts}
        if len(rulings) != 1 or (ruling := rulings.pop()) is None:
            return self._leave_escalated(
                "ruled in more than one way" if len(rulings) > 1 else "gave no reply that can be read as a ruling"
            )
        number, answer = ruling
        if answer is not None:
            return self._rule("answer", answer, f"gave an answer of its own, beside {len(candidates)} of the group")
        if number is None:
            return self._rule(
                "abstain", None, f"found none of {quantity(len(candidates), 'answer')} right, or did not know"
            )
        if not 1 <= number <= len(candidates):
            return self._leave_escalated(f"chose answer {number}, but there are {len(candidates)}")
        chosen = candidates[number - 1]
        reason = f"chose answer {number} of {len(candidates)} (support {chosen['support']:.0%})"
        return self._rule("answer", chosen["answer"], reason)

    def _rule(self, action: Any, answer: str | None, reason: str) -> Ruling:
        return Ruling(action=action, answer=answer, reason=f"{self.name} {reason}", decided_by=self.name)

    def _leave_escalated(self, reason: str) -> Ruling:
        return self._rule("escalate", None, reason)


def _parse_ruling(text: str) -> tuple[int | None, str | None] | None:
    """Returns the choice and the answer that a reply states, both None for "NONE"; None where it states no ruling."""
    lines = [line.strip().strip("*`").strip() for line in strip_reasoning(text).splitlines()]
    found = [_RULING.fullmatch(line) for line in lines if line]
    if not found or (last := found[-1]) is None or sum(match is not None for match in found) > 1:
        return None
    return (None if last[1] is None else int(last[1])), last[2]
