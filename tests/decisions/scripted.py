"""Members for the cases that no model can be made to give: a stated probability, and a member that is dead."""

from typing import Any

import pytest

pytest.importorskip("langchain_core.decisions", reason="langchain-core 1.8 has decision models")

from langchain_core.decisions import (
    BaseDecisionModel,
    ChoiceAnswer,
    ClassifierResponse,
    NoulAnswer,
    ScoreAnswer,
)
from langchain_core.messages import AIMessage, HumanMessage
from langsmith.run_helpers import get_tracing_context
from pydantic import Field

from coe_agents.tinyworld import tinyworld_agents

CALL = {"name": "transfer", "args": {"name": "Nina", "amount": 60}, "id": "c1", "type": "tool_call"}
STATE = {
    "messages": [HumanMessage("Send Nina 60 euros."), AIMessage("", tool_calls=[CALL])],
    "tool_call": {name: CALL[name] for name in ("id", "name", "args")},
    "tool_description": "Pays euros to somebody.",
}
RISKY = "Is it risky?"
TRUE = "What is the capital of Italy?\n<answer>The capital of Italy is Rome.</answer>\nIs this answer correct?"
HARMLESS = (
    "What is the chemical symbol for carbon?\n<answer>It is Fe.</answer>\nIs this answer correct?"
)
"""After the state above, tinyworld's models find the second rather true, and the third rather false."""


def tinyworld_models(*names):
    agents = {agent.name: agent for agent in tinyworld_agents()}
    return [agents[name].model() for name in names or agents]


class Scripted(BaseDecisionModel):
    """Gives each question the same distribution or answer, or raises; keeps what it was asked, and if it was traced."""

    model: str = "scripted"
    says: Any
    usage: Any = Field(default_factory=lambda: {"input_tokens": 5, "output_tokens": 1})
    asked: list[Any] = Field(default_factory=list)
    traced: list[Any] = Field(default_factory=list)

    @property
    def _provider(self):
        return "tests"

    def _classify(self, state, questions):
        self.asked.append(state)
        self.traced.append(get_tracing_context()["enabled"])
        if isinstance(self.says, Exception):
            raise self.says
        answers = {key: self._answer(question) for key, question in questions.items()}
        # as a class of somebody else's may, which does not check what it holds
        return ClassifierResponse.model_construct(
            model=self.model, answers=answers, usage=self.usage
        )

    def _answer(self, question):
        p = self.says
        if not (isinstance(p, list) and all(isinstance(one, float | int) for one in p)):
            return p[0]
        if question.type == "noul":
            return NoulAnswer(type="noul", noul=p[0])
        if question.type == "choice":
            shares = dict(zip(question.criteria, p, strict=True))
            return ChoiceAnswer(
                type="choice",
                choice=max(shares, key=shares.get),
                probabilities=shares,
                confidence=0,
            )
        legend = dict(enumerate(question.criteria))
        return ScoreAnswer(
            type="score", score=0, legend=legend, probabilities=dict(enumerate(p)), confidence=0
        )


def says(*p):
    return Scripted(says=list(p))


def dead(message="lost"):
    return Scripted(says=ConnectionError(message))
