"""Owns the judgements of a chat model: whether an answer is right, entails another, or is false by its own account."""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ContextThreadPoolExecutor, ensure_config
from langgraph.constants import TAG_NOSTREAM
from numpy.typing import NDArray

from coe_agents import prompts
from coe_agents._removed import refuses_removed
from coe_agents._steps import Call, Steps, arun_steps, run_steps
from coe_agents.agents.choice.probability import MIN_MASS, read_choice
from coe_agents.agents.model_agent import ModelAgent
from coe_agents.agents.requests.parse import is_cut
from coe_agents.checks import integer, require
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.clustering.protocols import ENTAILMENT_LABELS
from coe_agents.clustering.refusals import answer_kind
from coe_agents.clustering.unjudged import no_verdict, note_unjudged
from coe_agents.errors import NoChoiceError, describe_error, is_control_flow, secrets_of
from coe_agents.text import for_prompt, quantity, safe_message
from coe_agents.types import (
    DECIDERS,
    Agent,
    AgentReply,
    AgentRequest,
    Candidate,
    EscalatedCase,
    Ruling,
)

_LOG = logging.getLogger(__name__)
_RIGHT = "correct"
_WRONG = "incorrect"
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

    def __init__(
        self, model: BaseChatModel | str, *, name: str = "judge", max_concurrency: int = 8
    ) -> None:
        self.name = name
        self.n_unclear = 0
        self._agent = ModelAgent(
            "judge", model, n_samples=1, temperature=0.0, max_concurrency=max_concurrency
        )

    def judge(self, predictions: Sequence[Any]) -> list[bool | None]:
        """Returns for each `coe_agents.evaluation.Prediction` whether it is right; None where there is no verdict.

        Raises:
            CoEError: If the model fails.
        """
        verdicts = list[bool | None]()
        places = list[int]()  # of what the model is asked about
        for place, prediction in enumerate(predictions):
            if not prediction.references:
                verdicts.append(None)
                continue
            verdicts.append(False)
            if answer_kind(prediction.answer) == "answer":
                places.append(place)

        unjudged = [predictions[place] for place in places]
        with ContextThreadPoolExecutor(max_workers=self._agent.max_concurrency) as pool:
            # after an error, it cancels those that wait
            judged = list(pool.map(self._verdict, unjudged))
        for place, verdict in zip(places, judged, strict=True):
            verdicts[place] = verdict

        if n_unclear := judged.count(None):
            self.n_unclear += n_unclear
            _LOG.warning("%d of %s could not be judged", n_unclear, quantity(len(judged), "answer"))
        return verdicts

    def _verdict(self, prediction: Any) -> bool | None:
        references = prediction.references[:_MOST_REFERENCES]
        text = prompts.correctness(prediction.question, prediction.answer, references)
        messages = [{"role": "user", "content": text}]
        request = AgentRequest(question=prediction.question, messages=messages, round=0)
        reply = self._agent.sample(request)
        if is_cut(reply):
            return None
        stated = read_choice(reply["responses"][0]["text"], (_RIGHT, _WRONG))
        return None if stated is None else stated == _RIGHT


async def ask_p_false(agent: ModelAgent, question: str, answer: str) -> float | None:
    """Returns the agent's probability that an answer is false, P("False" | "True" or "False"), in [0, 1].

    After Kadavath et al. (2022), with the prompt `coe_agents.prompts.self_check` and without the system prompt. Where
    the number comes from, exact scores or sampled replies, depends on the model: see `ModelAgent.choice`. Where the
    model chooses neither, it is None, with a warning in the log.
    """
    messages = [("user", prompts.self_check(question, answer))]
    try:
        choice = await agent.achoice(messages, prompts.SELF_CHECK_CHOICES)
    except NoChoiceError as error:
        _LOG.warning('agent "%s" gave no P(False): %s', agent.name, error)
        return None
    return choice.probabilities["False"]


_Pair = tuple[str, str]
_Row = tuple[float, ...]
_NEUTRAL: _Row = (0.0, 1.0, 0.0)
_FEW = 3
"""A judge that fails on all of so many pairs fails altogether."""


class ChatEntailment:
    """An `EntailmentModel`: a chat model as judge, with the question of the semantic-entropy literature.

    Each distinct pair of a call is asked once, several at a time. The row of a pair is `ModelAgent.choice` of the
    labels where the model scores them exactly; elsewhere, or where the labels hold less than half of its probability,
    the reply's text is read, and the label that it states gets 1. What cannot be judged is neutral, never
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

    @refuses_removed
    def __init__(self, model: BaseChatModel | str, *, max_concurrency: int = 8) -> None:
        integer(
            max_concurrency,
            '"max_concurrency" of ChatEntailment',
            least=1,
            advice="1 asks one by one",
        )
        self.model = model
        self.max_concurrency = max_concurrency
        self.n_unclear = 0
        self._lock = threading.Lock()
        self._agent = ModelAgent("ChatEntailment", model, n_samples=1, temperature=0.0)

    @property
    def model_name(self) -> str | None:
        """The name of the model, by which a calibration knows it; None if its client tells none."""
        return self._agent.model_name

    def predict(self, pairs: Sequence[_Pair]) -> NDArray[np.float64]:
        """Returns the probabilities of contradiction, neutral and entailment for each (premise, hypothesis).

        Returns:
            Shape (n_pairs, 3); rows sum to 1.

        Raises:
            CoEError: If the model fails; pairs that wait are not asked then. It is a `NoChoiceError` if there is no
                verdict on any of three or more pairs: such a judge would make all answers look different. In a graph,
                one that gives no verdict on any pair of a question fails, however few they are.
        """
        if not pairs:
            return np.zeros((0, len(ENTAILMENT_LABELS)))
        pairs = [(premise, hypothesis) for premise, hypothesis in pairs]
        distinct = list(dict.fromkeys(pairs))
        n_threads = min(self.max_concurrency, len(distinct))
        with ContextThreadPoolExecutor(max_workers=n_threads) as pool:
            try:
                # after an error, it cancels those that wait
                judged = list(pool.map(self._judge, distinct))
            except Exception as error:
                n_pairs = quantity(len(distinct), "pair")
                error.add_note(f"raised while ChatEntailment judged {n_pairs}")
                raise
        self._note_unclear(dict(zip(distinct, judged, strict=True)))

        row_of = dict[_Pair, _Row]()
        for pair, row in zip(distinct, judged, strict=True):
            row_of[pair] = row if isinstance(row, tuple) else _NEUTRAL
        return np.array([row_of[pair] for pair in pairs])

    def _note_unclear(self, judged: Mapping[_Pair, _Row | NoChoiceError | None]) -> None:
        """Logs, counts and notes the pairs without a verdict; a NoChoiceError if the judge gave none at all."""
        name = type(self).__name__
        failures = [row for row in judged.values() if isinstance(row, NoChoiceError)]
        failure = ""
        if failures:
            # a reply may repeat a key
            secrets = secrets_of(self._agent, failures[0])
            failure = safe_message(str(failures[0]), secrets)
        n_pairs = len(judged)
        if len(failures) == n_pairs >= _FEW:
            raise NoChoiceError(no_verdict(name, n_pairs, failure), retryable=False)

        unclear = [pair for pair, row in judged.items() if not isinstance(row, tuple)]
        with note_unjudged() as noted:
            noted.judged |= judged.keys() - {*unclear}
            noted.note(name, unclear, failure=failure)

        n_unclear = len(unclear)
        if n_unclear:
            with self._lock:
                self.n_unclear += n_unclear
            _LOG.warning(
                "%d of %s could not be judged by %s, and count as neutral: on the first, %s",
                n_unclear,
                quantity(n_pairs, "pair"),
                name,
                failure or f"what differs is not among the {prompts.MAX_JUDGED} characters shown",
            )

    def _judge(self, pair: _Pair) -> _Row | NoChoiceError | None:
        premise, hypothesis = pair
        premise_shown = for_prompt(premise, limit=prompts.MAX_JUDGED)
        hypothesis_shown = for_prompt(hypothesis, limit=prompts.MAX_JUDGED)
        is_shortened = len(premise_shown) == prompts.MAX_JUDGED and premise_shown.endswith("…")
        if is_shortened and premise_shown == hypothesis_shown and premise != hypothesis:
            return None

        messages = [HumanMessage(prompts.entailment(premise, hypothesis))]
        # of the graph's node, say, which traces the request and does not stream the reply
        run = ensure_config()
        config = {**run, "tags": [*run["tags"], TAG_NOSTREAM]}
        try:
            choice = self._agent.choice(messages, ENTAILMENT_LABELS, config=config)
            if choice.method != "sampled" and choice.mass < MIN_MASS:
                choice = self._agent.choice(
                    messages, ENTAILMENT_LABELS, methods=("sampled",), config=config
                )
        except NoChoiceError as error:
            error.hint = ""  # it is for whoever words the question
            return error
        return tuple(choice.probabilities[label] for label in ENTAILMENT_LABELS)


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

    @refuses_removed
    def __init__(self, model: BaseChatModel | Agent | str, *, name: str = "arbiter") -> None:
        must = '"name" of Arbiter must not be empty'
        require(bool(name.strip()), must, name, 'Omit it for "arbiter"')
        must = '"name" of Arbiter must not be "group" or "person", whom a gate trusts'
        require(name not in DECIDERS, must, name, "Rename it")
        if not isinstance(model, Agent):
            model = ModelAgent(name, model, n_samples=1, temperature=0.0)
        self.name: str = name
        self._agent: Agent = model

    def __repr__(self) -> str:
        return f"Arbiter({self.name!r})"

    def invoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        """Asks the model, and returns its ruling."""
        return run_steps(self._steps(input, config))

    async def ainvoke(
        self, input: EscalatedCase, config: RunnableConfig | None = None, **_: Any
    ) -> Ruling:
        """Asks the model, and returns its ruling; see `invoke`."""
        return await arun_steps(self._steps(input, config))

    def _steps(self, case: EscalatedCase, config: RunnableConfig | None) -> Steps[Ruling]:
        try:
            answers = []
            for candidate in case["candidates"]:
                answers.append((candidate["answer"], candidate["support"]))
            text = prompts.arbitration(case["question"], answers, regime=case["regime"])
            messages = prompts.rephrase(case["conversation"], text)
            request = AgentRequest(question=case["question"], messages=messages, round=0)
            reply: AgentReply = yield Call(
                self._agent.sample, self._agent.asample, (request, config)
            )
            if is_cut(reply):
                ruling = self._leave_escalated("was cut off before it ruled")
            else:
                texts = [response["text"] for response in reply["responses"]]
                ruling = self._read(texts, case["candidates"])
            ruling["usage"] = reply["usage"]
            return ruling
        except Exception as error:
            if is_control_flow(error):
                raise
            return self._leave_escalated(f"failed: {describe_error(error, self._agent)}")

    def _read(self, texts: list[str], candidates: list[Candidate]) -> Ruling:
        rulings = {_parse_ruling(text) for text in texts}
        if len(rulings) > 1:
            return self._leave_escalated("ruled in more than one way")
        ruling = rulings.pop() if rulings else None
        if ruling is None:
            return self._leave_escalated("gave no reply that can be read as a ruling")

        number, answer = ruling
        n_candidates = len(candidates)
        if answer is not None:
            reason = f"gave an answer of its own, beside {n_candidates} of the group"
            return self._rule("answer", answer, reason)
        if number is None:
            reason = f"found none of {quantity(n_candidates, 'answer')} right, or did not know"
            return self._rule("abstain", None, reason)
        if not 1 <= number <= n_candidates:
            return self._leave_escalated(f"chose answer {number}, but there are {n_candidates}")
        chosen = candidates[number - 1]
        reason = f"chose answer {number} of {n_candidates} (support {chosen['support']:.0%})"
        return self._rule("answer", chosen["answer"], reason)

    def _rule(self, action: Any, answer: str | None, reason: str) -> Ruling:
        return Ruling(
            action=action, answer=answer, reason=f"{self.name} {reason}", decided_by=self.name
        )

    def _leave_escalated(self, reason: str) -> Ruling:
        return self._rule("escalate", None, reason)


def _parse_ruling(text: str) -> tuple[int | None, str | None] | None:
    """Returns the choice and the answer that a reply states, both None for "NONE"; None where it states no ruling."""
    rulings = list[re.Match[str]]()
    last = None
    for line in strip_reasoning(text).splitlines():
        words = line.strip().strip("*`").strip()
        if not words:
            continue
        last = _RULING.fullmatch(words)
        if last is not None:
            rulings.append(last)
    if last is None or len(rulings) > 1:
        return None
    number = None if last[1] is None else int(last[1])
    answer = last[2]
    return number, answer
