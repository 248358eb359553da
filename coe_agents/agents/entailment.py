"""Owns `ChatEntailment`: a chat model that is asked whether one answer entails another."""

import logging
import threading
from collections.abc import Sequence

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables.config import ContextThreadPoolExecutor, ensure_config
from langgraph.constants import TAG_NOSTREAM
from numpy.typing import NDArray

from coe_agents import prompts
from coe_agents.agents.choice.probability import MIN_MASS
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.checks import integer
from coe_agents.clustering.protocols import ENTAILMENT_LABELS
from coe_agents.errors import NoChoiceError
from coe_agents.text import for_prompt, quantity

_LOG = logging.getLogger(__name__)
_Pair = tuple[str, str]
_Row = tuple[float, ...]
_NEUTRAL: _Row = (0.0, 1.0, 0.0)
_FEW = 3
"""A judge that fails on all of so many pairs fails altogether."""


class ChatEntailment:
    """An `EntailmentModel`: a chat model as judge, with the question of the semantic-entropy literature.

    Each distinct pair of a call is asked once, several at a time. The row of a pair is `ModelAgent.choice` of the
    labels where the model gives log-probabilities; elsewhere, or where the labels hold less than half of its
    probability, the reply's text is read, and the label that it states gets 1. What cannot be judged is neutral, never
    entailment: a reply that states no label, or more than one, and two texts that differ only beyond the
    `coe_agents.prompts.MAX_JUDGED` characters that are shown of each. Such pairs are logged and counted.

    A judge should not guess: it is asked at temperature 0, as the model of a `ModelAgent`.

    Args:
        model: A chat model, or "provider:model".
        max_concurrency: How many pairs of a call are asked at a time.

    Attributes:
        n_unclear: The pairs so far that could not be judged.

    Raises:
        TypeError: If `model` is neither a chat model nor a string.
        ValueError: If `max_concurrency` is below 1, or `model` is a pipeline of langchain-huggingface.

    Example:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> judge = ChatEntailment(FakeListChatModel(responses=["Entailment."]))
        >>> judge.predict([("Which city? Paris", "Which city? It is Paris.")]).tolist()
        [[0.0, 0.0, 1.0]]
    """

    def __init__(self, model: BaseChatModel | str, *, max_concurrency: int = 8) -> None:
        integer(max_concurrency, '"max_concurrency" of ChatEntailment', least=1, advice="1 asks one by one")
        self.model = model
        self.max_concurrency = max_concurrency
        self.n_unclear = 0
        self._lock = threading.Lock()
        self._agent = ModelAgent("ChatEntailment", model, n_samples=1, temperature=0.0)

    def predict(self, pairs: Sequence[_Pair]) -> NDArray[np.float64]:
        """Returns the probabilities of contradiction, neutral and entailment for each (premise, hypothesis).

        Returns:
            Shape (n_pairs, 3); rows sum to 1.

        Raises:
            CoEError: If the model fails; pairs that wait are not asked then. It is a `NoChoiceError` if there is no
                verdict on any of three or more pairs: such a judge would make all answers look different.
        """
        if not pairs:
            return np.zeros((0, len(ENTAILMENT_LABELS)))
        pairs = [(premise, hypothesis) for premise, hypothesis in pairs]
        distinct = list(dict.fromkeys(pairs))
        with ContextThreadPoolExecutor(max_workers=min(self.max_concurrency, len(distinct))) as pool:
            try:
                judged = list(pool.map(self._judge, distinct))  # after an error, it cancels those that wait
            except Exception as error:
                error.add_note(f"raised while ChatEntailment judged {quantity(len(distinct), 'pair')}")
                raise
        refused = [each for each in judged if isinstance(each, NoChoiceError)]
        if len(refused) == len(judged) >= _FEW:
            raise NoChoiceError(
                f"the judge gave no verdict on any of {len(judged)} pairs; on the first: {refused[0]}", retryable=False
            )
        if n_unclear := len(refused) + judged.count(None):
            with self._lock:
                self.n_unclear += n_unclear
            _LOG.warning("%d of %s could not be judged: taken as neutral", n_unclear, quantity(len(distinct), "pair"))
        rows = {pair: row if isinstance(row, tuple) else _NEUTRAL for pair, row in zip(distinct, judged, strict=True)}
        return np.array([rows[pair] for pair in pairs])

    def _judge(self, pair: _Pair) -> _Row | NoChoiceError | None:
        shown, other = (for_prompt(text, limit=prompts.MAX_JUDGED) for text in pair)
        is_cut = len(shown) == prompts.MAX_JUDGED and shown.endswith("…")
        if shown == other and is_cut and pair[0] != pair[1]:
            return None
        asked = [HumanMessage(prompts.entailment(*pair))]
        run = ensure_config()  # of the graph's node, say, which traces the request and does not stream the reply
        config = {**run, "tags": [*run["tags"], TAG_NOSTREAM]}
        try:
            found = self._agent.choice(asked, ENTAILMENT_LABELS, config=config)
            if found.method != "sampled" and found.mass is not None and found.mass < MIN_MASS:
                found = self._agent.choice(asked, ENTAILMENT_LABELS, methods=("sampled",), config=config)
        except NoChoiceError as error:
            return error
        return tuple(found.probabilities[label] for label in ENTAILMENT_LABELS)
