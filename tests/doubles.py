import re
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from coe_agents._steps import run_steps
from coe_agents.agents.choice.probability import ChoiceProbabilities, choice_steps
from coe_agents.agents.requests.send import Server, places_of
from coe_agents.testing import ScriptedAgent
from coe_agents.testing import create_response as response
from coe_agents.types import AgentRequest

__all__ = ["CountingModel", "JudgingModel", "Rewriting", "ScriptedAgent", "response"]


class Rewriting(ScriptedAgent):
    """Says what its script says, but for these fields of each response."""

    def __init__(self, name: str, *rounds: Any, **fields: Any) -> None:
        super().__init__(name, *rounds)
        self.fields = fields

    def sample(self, request: Any, config: Any = None) -> Any:
        reply = super().sample(request, config)
        return {**reply, "responses": [{**row, **self.fields} for row in reply["responses"]]}


REQUEST = AgentRequest(question="Q?", messages=[{"role": "user", "content": "Q?"}], round=0)


class CountingModel(BaseChatModel):
    """Gives `per_call` texts a call, whatever is asked for, and keeps the options of each call."""

    n: int = 1
    fails_at: int | None = None
    logprobs: bool | None = None
    seed: int | None = None
    temperature: float | None = None
    streaming: bool = False
    per_call: int = 100
    calls: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None]) -> dict[str, Any]:
        return llm_outputs[0] or {}

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        fields = ("temperature", "logprobs", "seed", "streaming", "cache")
        self.calls.append(
            {**{name: getattr(self, name) for name in fields}, **options, "messages": messages}
        )
        if len(self.calls) == self.fails_at:
            raise ConnectionError("lost")
        content = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
        info = {"logprobs": content} if self.logprobs else {}
        count = min(options.get("n", 1), self.per_call)
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=AIMessage(f"text {len(self.calls)}.{i}"), generation_info=info
                )
                for i in range(count)
            ],
            llm_output={"token_usage": {"prompt_tokens": 7, "completion_tokens": count}},
        )


class JudgingModel(BaseChatModel):
    """Answers the prompt of `prompts.entailment` with what `verdict` says of the two texts, and keeps the pairs."""

    verdict: Callable[[str, str], str]
    asked: list[tuple[str, str]] = Field(default_factory=list)

    def __init__(self, verdict: Callable[[str, str], str]) -> None:
        super().__init__(verdict=verdict)

    @property
    def _llm_type(self) -> str:
        return "judging"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        premise, hypothesis = re.findall("<answer>(.*?)</answer>", messages[-1].text)
        self.asked.append((premise, hypothesis))
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(self.verdict(premise, hypothesis)))]
        )


class ScoringModel(FakeListChatModel):
    """Scores choices, so that their probabilities are exact, and keeps what it was shown; would say its `responses`."""

    responses: list[str] = Field(default_factory=list)
    scores: list[float]
    shown: list[list[str]] = Field(default_factory=list)

    def choice_log_probabilities(self, messages: Any, choices: Any) -> list[float]:
        self.shown.append([message.text for message in messages])
        return self.scores


class ProposingModel(BaseChatModel):
    """Gives the messages of a script, one after the other and from the start again, and keeps what it was shown."""

    script: list[AIMessage]
    n: int = 1
    shown: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "proposing"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=tools, **options)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        self.shown.append({**options, "messages": messages})
        said = [self.script[i % len(self.script)] for i in range(options.get("n", 1))]
        infos = [
            {"finish_reason": one.response_metadata.get("finish_reason", "stop")} for one in said
        ]
        both = zip(said, infos, strict=True)
        return ChatResult(
            generations=[ChatGeneration(message=one, generation_info=info) for one, info in both]
        )


def choice_probability(model: BaseChatModel, *asked: Any, **options: Any) -> ChoiceProbabilities:
    """Asks a model itself, without an agent's limits and retries."""
    server = Server(model, "", places_of(model, ""))
    return run_steps(choice_steps(server, *asked, **options))
