"""Owns asking a chat model whether an answer is right, given the accepted ones, or whether its own one is false."""

import logging
from collections.abc import Sequence
from itertools import compress
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import ContextThreadPoolExecutor

from coe_agents import prompts
from coe_agents.agents._requests.parse import is_cut
from coe_agents.agents.choice.reading import read_choice
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.clustering.refusals import answer_kind
from coe_agents.errors import NoChoiceError
from coe_agents.text import quantity
from coe_agents.types import AgentRequest

_LOG = logging.getLogger(__name__)
_RIGHT, _WRONG = "correct", "incorrect"
_MOST_REFERENCES = 50


class ChatJudge:
    """A criterion of correctness: a chat model that compares an answer with the accepted ones, at temperature 0.

    It is asked once for each answer in the words of `coe_agents.prompts.correctness`, shown 50 references at most, and
    must reply "correct" or "incorrect". Any other reply, and one that was cut off, gives no verdict: it is logged and
    counted. A refusal or an empty answer counts as wrong without asking the model; an answer without references has no
    verdict.

    Args:
        model: A chat model, or "provider:model".
        name: What reports call the criterion.
        max_concurrency: How many answers are judged at a time.

    Attributes:
        n_unclear: The replies so far that gave no verdict.

    Raises:
        TypeError: If `model` is neither a chat model nor a string.
        ValueError: If `max_concurrency` is below 1, or `model` is a pipeline of langchain-huggingface.

    Example:
        >>> from coe_agents.evaluation.scoring.correctness import Prediction
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> judge = ChatJudge(FakeListChatModel(responses=["Correct."]))
        >>> judge.judge([Prediction("Of France?", "It is Paris.", ("Paris",)), Prediction("Of Italy?", "Rome")])
        [True, None]
    """

    def __init__(self, model: BaseChatModel | str, *, name: str = "judge", max_concurrency: int = 8) -> None:
        self.name = name
        self.n_unclear = 0
        self._agent = ModelAgent("judge", model, n_samples=1, temperature=0.0, max_concurrency=max_concurrency)

    def judge(self, predictions: Sequence[Any]) -> list[bool | None]:
        """Returns for each `coe_agents.evaluation.Prediction` whether it is right; None where there is no verdict.

        Raises:
            CoEError: If the model fails.
        """
        asked = [bool(one.references) and answer_kind(one.answer) == "answer" for one in predictions]
        with ContextThreadPoolExecutor(max_workers=self._agent.max_concurrency) as pool:
            # after an error, it cancels those that wait
            judged = list(pool.map(self._verdict, list(compress(predictions, asked))))
        if n_unclear := judged.count(None):
            self.n_unclear += n_unclear
            _LOG.warning("%d of %s could not be judged", n_unclear, quantity(len(judged), "answer"))
        verdicts = iter(judged)
        return [
            next(verdicts) if is_asked else (False if one.references else None)
            for one, is_asked in zip(predictions, asked, strict=True)
        ]

    def _verdict(self, prediction: Any) -> bool | None:
        shown = prediction.references[:_MOST_REFERENCES]
        said = {"role": "user", "content": prompts.correctness(prediction.question, prediction.answer, shown)}
        reply = self._agent.sample(AgentRequest(question=prediction.question, messages=[said], round=0))
        stated = None if is_cut(reply) else read_choice(reply["responses"][0]["text"], (_RIGHT, _WRONG))
        return None if stated is None else stated == _RIGHT


async def ask_p_false(agent: ModelAgent, question: str, answer: str) -> float | None:
    """Returns the agent's probability that an answer is false, P("False" | "True" or "False"), in [0, 1].

    After Kadavath et al. (2022), with the prompt `coe_agents.prompts.self_check` and without the system prompt. Where
    the number comes from, exact scores, the likeliest first tokens or sampled replies, depends on the model: see
    `ModelAgent.choice`. Where the model chooses neither, it is None, with a warning in the log.
    """
    asked = [("user", prompts.self_check(question, answer))]
    try:
        found = await agent.achoice(asked, prompts.SELF_CHECK_CHOICES)
    except NoChoiceError as error:
        _LOG.warning('agent "%s" gave no P(False): %s', agent.name, error)
        return None
    return found.probabilities["False"]
