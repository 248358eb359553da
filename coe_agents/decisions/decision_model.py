"""Owns `CoEDecisionModel`. No other file knows the interfaces of LangChain's decision models."""

import asyncio
import logging
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
from langchain_core.decisions import (
    Answer,
    BaseDecisionModel,
    Box,
    Choice,
    ChoiceAnswer,
    ClassifierRequest,
    ClassifierResponse,
    Noul,
    NoulAnswer,
    Question,
    Score,
    ScoreAnswer,
    State,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.context import tracing_v2_callback_var
from langsmith import tracing_context
from pydantic import PrivateAttr
from typing_extensions import TypedDict

from coe_agents import prompts
from coe_agents._removed import refuses_removed
from coe_agents._steps import Call, Steps, arun_steps, run_steps, start_call
from coe_agents.agents import ModelAgent
from coe_agents.agents.choice.probability import MIN_MASS
from coe_agents.agents.requests.chat_models import free_name
from coe_agents.checks import instance, number, require, several
from coe_agents.decisions.shown_state import MediaError, to_json
from coe_agents.errors import (
    GroupUnavailableError,
    InvalidReplyError,
    describe_error,
    is_control_flow,
)
from coe_agents.policy.base import check_threshold, majority
from coe_agents.text import quantity
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    Regime,
    Usage,
    add_usages,
    create_usage,
    to_usage,
)
from coe_agents.uncertainty import CollaborativeEntropy, collaborative_entropy, regime
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.collaborative import ensemble_mean
from coe_agents.uncertainty.ties import TIE, shares_lead

_LOG = logging.getLogger(__name__)
_TRUTH = ("true", "false")
"""The labels of a `Noul`, in the order of `SELF_CHECK_CHOICES`, by which chat models are asked."""
_ROUNDING = 0.01
"""How far from 1 the probabilities of another decision model may sum."""
_ANSWERS = {"noul": NoulAnswer, "choice": ChoiceAnswer, "score": ScoreAnswer}
"""The kind of answer that each kind of question has."""
DEFAULT_BLOCKS: Mapping[str, bool] = MappingProxyType({"is_risky": True})
"""The question of `AutoModeMiddleware`, and the answer to it by which it blocks."""


class QuestionDecision(TypedDict):
    """What a group says to one question, as plain data.

    The labels are "true" and "false" for a `Noul`, those of its criteria for a `Choice`, "0", "1", ... for a `Score`.

    Attributes:
        probabilities: The mean of the members' distributions, by label. In a question of `blocks` with the votes of
            failed and unclear members, and with at least one half for the blocking answer unless the group lets pass.
        coe: Collaborative Entropy of the members that answered, in nats: the sum of the next two.
        aleatoric: Their mean entropy, in nats: doubt within members.
        epistemic: Their divergence from their mean, in nats: disagreement between members.
        regime: "consensus", "conflict", "ambiguous" or "unknown", by the thresholds of the group.
        votes: In a question of `blocks`, who votes to let pass: the members that hold the blocking answer below one
            half, with at least half of their mass on the choices. None where no answer blocks.
        members: The distribution of each member that answered, given that its reply is one of the choices.
        failed_members: What went wrong with each of the others: the exception's type and message.
    """

    probabilities: dict[str, float]
    coe: float
    aleatoric: float
    epistemic: float
    regime: Regime
    votes: list[str] | None
    members: dict[str, dict[str, float]]
    failed_members: dict[str, str]


class CoEClassifierResponse(ClassifierResponse):
    """LangChain's response of a decision model, with what the group said to each question."""

    decisions: dict[str, QuestionDecision]


class _Vote(NamedTuple):
    """One member's distribution over the labels of a question, given that it replies with one of them.

    Attributes:
        mass: The share of its replies that are one of the labels.
    """

    row: Sequence[float]
    mass: float = 1.0

    @property
    def is_clear(self) -> bool:
        return self.mass >= MIN_MASS


class _Reply(NamedTuple):
    """What a member said to some of the questions, or what went wrong there."""

    member: str
    votes: Mapping[str, _Vote | str]
    usage: Usage = create_usage(0, 0)


class CoEDecisionModel(BaseDecisionModel):
    r"""A decision model of LangChain that answers with a group's probabilities, and knows how much it disagrees.

    It takes a classifier's place in LangChain's `AutoModeMiddleware` and `ModelRouterMiddleware`. Every member answers
    every question, all at the same time. The answer is the mean of their distributions, p_bar(c) = (1/K) sum_i p_i(c):
    of a `Noul` the probability of true, of a `Choice` the label of the highest probability (on a tie the first of its
    criteria), of a `Score` the expected level. `confidence` is the probability of the chosen label, or of the
    likeliest level. A `Box` is refused.

    A chat model is asked each question by its own request and replies "True", "False" or the letter of a label. Its
    distribution is what `ModelAgent.choice` returns: exact where the model scores the choices (`ChatTransformers`),
    elsewhere from ten sampled replies. The state is shown as JSON inside a fence that it cannot close. Of a list of
    messages a chat model sees the last 8,000 characters, and 4,000 of each text and of the calls of each message;
    everything else in the state is shown whole, or the state is refused. Media are passed on to members that are
    decision models. A chat model then counts as failed; a group of chat models refuses them.

    It fails closed where `blocks` says what that means. Such a question passes only as a council lets a call pass: a
    strict majority of all members, the failed ones included, hold the blocking answer below one half, each with at
    least half of its replies among the choices; and the epistemic part is at most its threshold. Otherwise the blocking
    answer has at least one half. A sampled reply counts only if it is whole and consists of a choice. A failed member,
    and one that mostly replies something else, counts as certain of the blocking answer in the mean.

    In other questions failed members are left out, and `decide` shows a conflict. If fewer than a majority of the
    members answer a question, an error is raised, which ends the run of LangChain's middleware.

    A trace has the questions, the answers and the numbers of `decide`, never the state: requests to members are not
    traced, and of an error only its type is. Their tokens are in `usage`, unless a member does not report them.

    Args:
        members: Chat models, "provider:model" strings, or other decision models.
        blocks: The answer that blocks, by the key of the question: True or False, a label, or a level. It adds to that
            of `AutoModeMiddleware`, {"is_risky": True}. Each request must ask all questions that it names.
        aleatoric_threshold: In nats; see `coe_agents.uncertainty.regime`. It changes the regime alone.
        epistemic_threshold: In nats; above it no question of `blocks` passes.
        timeout: Seconds that each member has for a request; None for no limit.
        model: The name that responses and traces show.

    Raises:
        TypeError: If a member is something else.
        ValueError: If there is none, or an option cannot work.

    Example:
        >>> from coe_agents.tinyworld import tinyworld_agents
        >>> from langchain_core.decisions import Noul
        >>> group = CoEDecisionModel([agent.model() for agent in tinyworld_agents()])
        >>> asked = Noul(instructions="What is the capital of France?\n<answer>It is Rome.</answer>\nIs it so?")
        >>> found = group.decide("Nothing is known.", {"known": asked})["known"]
        >>> found["regime"], sorted(found["members"])
        ('ambiguous', ['tiny-llama', 'tiny-mistral', 'tiny-qwen2'])
    """

    model: str
    members: tuple[Any, ...]
    blocks: dict[str, bool | int | str]
    aleatoric_threshold: float
    epistemic_threshold: float
    timeout: float | None
    _asked: dict[str, ModelAgent | BaseDecisionModel] = PrivateAttr()

    @refuses_removed
    def __init__(
        self,
        members: Sequence[BaseChatModel | BaseDecisionModel | str],
        *,
        blocks: Mapping[str, bool | int | str] | None = None,
        aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
        epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
        timeout: float | None = 30.0,
        model: str = "coe",
    ) -> None:
        several(members, '"members"', of="models", advice="Put a single one into a list")
        require(
            bool(members),
            '"members" must hold at least one model',
            [],
            'Pass ["openai:gpt-5-mini", ...]',
        )
        if timeout is not None:
            number(
                timeout,
                '"timeout" of CoEDecisionModel in seconds',
                above=0,
                advice="None is no limit",
            )
        added = {} if blocks is None else blocks
        instance(
            added,
            Mapping,
            '"blocks"',
            what="a mapping of questions to answers",
            advice="{} adds none",
        )
        for key, answer in DEFAULT_BLOCKS.items():
            must = f'"blocks" may only add to the default; "{key}" must be {answer}'
            require(added.get(key, answer) == answer, must, added.get(key), "Omit it")
        super().__init__(
            model=model,
            members=tuple(members),
            blocks={**DEFAULT_BLOCKS, **added},
            aleatoric_threshold=check_threshold(aleatoric_threshold, where='"aleatoric_threshold"'),
            epistemic_threshold=check_threshold(epistemic_threshold, where='"epistemic_threshold"'),
            timeout=timeout,
        )
        asked = dict[str, ModelAgent | BaseDecisionModel]()
        for member in members:
            name = free_name(member, set(asked))
            if isinstance(member, BaseDecisionModel):
                asked[name] = member
            else:
                asked[name] = ModelAgent(name, member, timeout=timeout)
        self._asked = asked

    @property
    def _provider(self) -> str:
        return "coe_agents"

    def decide(
        self, state: State, questions: Mapping[str, Question], config: RunnableConfig | None = None
    ) -> dict[str, QuestionDecision]:
        """Returns what the group says to each question: CoE and its parts, the regime, each member's distribution.

        Args:
            state: What the questions are about, as in `invoke`: a text, messages, or JSON data with messages in it.
            questions: The questions by key; at least one.
            config: Callbacks, tags and metadata of the run.

        Raises:
            GroupUnavailableError: If fewer than a majority of the members answer a question.
            TypeError: If the state holds what is no JSON and no message.
            ValueError: If a question cannot be answered, the state is too long, or it holds media and all members
                are chat models.
        """
        return self.invoke(ClassifierRequest(state=state, questions=questions), config).decisions

    async def adecide(
        self, state: State, questions: Mapping[str, Question], config: RunnableConfig | None = None
    ) -> dict[str, QuestionDecision]:
        """Returns what the group says to each question; see `decide`."""
        request = ClassifierRequest(state=state, questions=questions)
        response = await self.ainvoke(request, config)
        return response.decisions

    def invoke(
        self, input: ClassifierRequest, config: RunnableConfig | None = None, **_: Any
    ) -> CoEClassifierResponse:
        """Answers the questions of one request; its run is traced without the state."""
        kept = list[CoEClassifierResponse]()

        def classify(_: Any) -> ClassifierResponse:
            kept.append(cast("CoEClassifierResponse", self._classify_and_record(input)))
            return _for_trace(kept[0])

        self._call_with_config(
            classify, _without_state(input), self._traced_config(config), run_type="llm"
        )
        return kept[0]

    async def ainvoke(
        self, input: ClassifierRequest, config: RunnableConfig | None = None, **_: Any
    ) -> CoEClassifierResponse:
        """Answers the questions of one request; see `invoke`."""
        kept = list[CoEClassifierResponse]()

        async def classify(_: Any) -> ClassifierResponse:
            kept.append(cast("CoEClassifierResponse", await self._aclassify_and_record(input)))
            return _for_trace(kept[0])

        await self._acall_with_config(
            classify, _without_state(input), self._traced_config(config), run_type="llm"
        )
        return kept[0]

    def _classify(self, state: State, questions: dict[str, Question]) -> CoEClassifierResponse:
        with _untraced():
            started = [start_call(run_steps, part) for part in self._parts(state, questions)]
            replies = [future.result() for future in started]
            return self._combine(questions, replies)

    async def _aclassify(
        self, state: State, questions: dict[str, Question]
    ) -> CoEClassifierResponse:
        with _untraced():
            parts = self._parts(state, questions)
            replies = await asyncio.gather(*map(arun_steps, parts))
            return self._combine(questions, replies)

    def _parts(self, state: State, questions: dict[str, Question]) -> list[Steps[_Reply]]:
        """Returns the requests to members: one for each question to a chat model, one to a decision model."""
        require(
            bool(questions),
            '"questions" must hold at least one',
            questions,
            "Name it by a key of your own",
        )
        unasked = [key for key in self.blocks if key not in questions and key not in DEFAULT_BLOCKS]
        must = '"blocks" of CoEDecisionModel must name questions of the request'
        advice = f"Correct the name, or omit it: the request asks {', '.join(questions)}"
        require(not unasked, must, unasked, advice)
        for key, question in questions.items():
            _labels(key, question)
            self._blocking(key, question)
        shown: Mapping[str, str | MediaError]
        try:
            shown = self._prompts(state, questions)
        except MediaError as error:
            if not any(isinstance(member, BaseDecisionModel) for member in self.members):
                raise
            shown = dict.fromkeys(questions, error)
        parts = list[Steps[_Reply]]()
        for name, member in self._asked.items():
            if isinstance(member, BaseDecisionModel):
                parts.append(self._ask_decision_model(name, member, state, questions))
            else:
                for key, question in questions.items():
                    blocks = self._blocking(key, question) is not None
                    parts.append(_ask(member, key, question, shown[key], blocks=blocks))
        return parts

    def _prompts(self, state: State, questions: Mapping[str, Question]) -> dict[str, str]:
        shown_state = to_json(state, prompts.MAX_REVIEWED)
        shown = {}
        for key, question in questions.items():
            if not isinstance(question, Box):
                instructions = self._words(question.instructions)
                shown[key] = prompts.decision(shown_state, instructions, self._replies(question))
        return shown

    def _words(self, content: Any) -> str:
        if isinstance(content, str):
            return content
        return to_json(content, prompts.MAX_REVIEWED)

    def _replies(self, question: Noul | Choice | Score) -> dict[str, str]:
        """Returns the replies to ask a chat model for, in the order of the labels, each with its meaning."""
        words = []
        if isinstance(question, Noul):
            criteria = question.criteria
            for meaning in (None, None) if criteria is None else (criteria.true, criteria.false):
                words.append("" if meaning is None else self._words(meaning))
            return dict(zip(prompts.SELF_CHECK_CHOICES, words, strict=True))
        if isinstance(question, Score):
            words += map(self._words, question.criteria)
        else:
            for label, meaning in question.criteria.items():
                words.append(label if meaning is None else f"{label}: {self._words(meaning)}")
        return dict(zip(string.ascii_uppercase, words, strict=False))

    def _ask_decision_model(
        self, name: str, member: BaseDecisionModel, state: State, questions: dict[str, Question]
    ) -> Steps[_Reply]:
        request = ClassifierRequest(state=state, questions=questions)
        arguments = request, RunnableConfig(callbacks=[])
        try:
            response = yield Call(member.invoke, member.ainvoke, arguments, seconds=self.timeout)
            votes = {}
            for key, question in questions.items():
                votes[key] = _read(response.answers.get(key), question, _labels(key, question))
            usage = to_usage(response.usage)
        except Exception as error:
            return _Reply(name, dict.fromkeys(questions, _describe(error, member)))
        return _Reply(name, votes, usage)

    def _combine(
        self, questions: Mapping[str, Question], replies: Sequence[_Reply]
    ) -> CoEClassifierResponse:
        decisions = dict[str, QuestionDecision]()
        answers = dict[str, Answer]()
        for key, question in questions.items():
            votes = {reply.member: reply.votes[key] for reply in replies if key in reply.votes}
            decisions[key] = self._decide(key, question, votes)
            shares = decisions[key]["probabilities"]
            answers[key] = _to_answer(question, shares, self._blocking(key, question))

        used = add_usages(reply.usage for reply in replies)
        n_in = used["input_tokens"]
        n_out = used["output_tokens"]
        usage = None
        if isinstance(n_in, int) and isinstance(n_out, int):
            usage = UsageMetadata(input_tokens=n_in, output_tokens=n_out, total_tokens=n_in + n_out)
        return CoEClassifierResponse(
            model=self.model, answers=answers, usage=usage, decisions=decisions
        )

    def _decide(
        self, key: str, question: Question, votes: Mapping[str, _Vote | str]
    ) -> QuestionDecision:
        labels = _labels(key, question)
        blocking = self._blocking(key, question)
        answered = dict[str, _Vote]()
        failed = dict[str, str]()
        for name, vote in votes.items():
            if isinstance(vote, _Vote):
                answered[name] = vote
            else:
                failed[name] = vote
        _check_quorum(key, failed, n_members=len(votes))

        rows = sorted(list(vote.row) for vote in answered.values())
        parts = collaborative_entropy(rows)
        coe, aleatoric, epistemic = map(float, parts)
        mean = ensemble_mean(rows)
        passing = None
        if blocking is not None:
            place = labels.index(blocking)
            passing = []
            for name, vote in answered.items():
                if vote.is_clear and vote.row[place] < 0.5 - TIE:
                    passing.append(name)
            passes = self._passes(passing, votes, parts)
            mean = _raise_unless(passes, _mean_of_all(votes, labels, place), place)
        return QuestionDecision(
            probabilities=_by_label(labels, mean.tolist()),
            coe=coe,
            aleatoric=aleatoric,
            epistemic=epistemic,
            regime=regime(
                aleatoric,
                epistemic,
                aleatoric_threshold=self.aleatoric_threshold,
                epistemic_threshold=self.epistemic_threshold,
            ),
            votes=passing,
            members={name: _by_label(labels, vote.row) for name, vote in answered.items()},
            failed_members=failed,
        )

    def _passes(
        self, passing: Collection[str], votes: Collection[str], parts: CollaborativeEntropy
    ) -> bool:
        """Returns whether a question of `blocks` passes, as a council lets a call pass: nothing else lets it."""
        if len(passing) < majority(len(votes)):
            return False
        return float(parts.epistemic) <= self.epistemic_threshold

    def _blocking(self, key: str, question: Question) -> str | None:
        """Returns the label of the answer that blocks; None where no answer does."""
        blocks = {**self.blocks, **DEFAULT_BLOCKS}  # also of a copy with other ones
        if key not in blocks:
            return None
        answer = blocks[key]
        labels = _labels(key, question)
        kind: type = str
        if isinstance(question, Noul):
            kind = bool
        elif isinstance(question, Score):
            kind = int
        label = str(answer).lower() if isinstance(answer, bool) else str(answer)
        must = f'"blocks" of CoEDecisionModel must name an answer to "{key}", one of {", ".join(labels)}'
        require(type(answer) is kind and label in labels, must, answer, "{} names no question")
        return label


@contextmanager
def _untraced() -> Iterator[None]:
    """Keeps requests to members, which show the state, out of LangSmith's traces."""
    token = tracing_v2_callback_var.set(None)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        tracing_v2_callback_var.reset(token)


def _without_state(request: ClassifierRequest) -> Any:
    return {"questions": dict(request["questions"])}


def _check_quorum(key: str, failed: Mapping[str, str], *, n_members: int) -> None:
    """Raises an error if fewer than a majority of the members answered a question."""
    if not failed:
        return
    whys = "; ".join(f"{name}: {why}" for name, why in failed.items())
    _LOG.warning('of the group, these failed in "%s": %s', key, whys)
    n_answered = n_members - len(failed)
    needed = majority(n_members)
    if n_answered < needed:
        kinds = ", ".join(f"{name} ({_kind(why)})" for name, why in failed.items())
        raise GroupUnavailableError(
            f'{quantity(n_answered, "member")} of {n_members} answered "{key}"; at least {needed} must. '
            f"Failed: {kinds}",
            hint="The log has their messages",
        )


def _for_trace(response: CoEClassifierResponse) -> CoEClassifierResponse:
    """Returns the response without the messages of errors, which may quote the state."""
    decisions = {}
    for key, decision in response.decisions.items():
        failed = {name: _kind(why) for name, why in decision["failed_members"].items()}
        decisions[key] = {**decision, "failed_members": failed}
    return response.model_copy(update={"decisions": decisions})


def _kind(reason: str) -> str:
    return reason.partition(":")[0]


def _describe(error: Exception, member: object) -> str:
    """Returns what went wrong; raises LangGraph's own exceptions again."""
    if is_control_flow(error):
        raise error
    return describe_error(error, member)


def _mean_of_all(votes: Mapping[str, _Vote | str], labels: Sequence[str], place: int) -> FloatArray:
    """Returns the mean in which whoever failed, or is unclear, is certain of the label at `place`."""
    certain = [0.0] * len(labels)
    certain[place] = 1.0
    rows = []
    for vote in votes.values():
        if isinstance(vote, _Vote) and vote.is_clear:
            rows.append(list(vote.row))
        else:
            rows.append(certain)
    return ensemble_mean(sorted(rows))  # by value: sums must not depend on the order of members


def _raise_unless(passes: bool, mean: FloatArray, place: int) -> FloatArray:
    """Returns the mean, with at least one half at `place` unless the question passes."""
    share = mean[place]
    is_half = share > 0.5 - TIE  # rounding must not open what one half closes
    if share >= 0.5 or (passes and not is_half):
        return mean
    # no other label may lead by rounding
    raised: FloatArray = np.minimum(mean * (0.5 / (1.0 - share)), 0.5)
    raised[place] = 0.5
    return raised


def _ask(
    agent: ModelAgent, key: str, question: Question, prompt: str | MediaError, *, blocks: bool
) -> Steps[_Reply]:
    labels = _labels(key, question)
    if len(labels) == 1:
        return _Reply(agent.name, {key: _Vote([1.0])})
    replies = tuple(string.ascii_uppercase[: len(labels)])
    if isinstance(question, Noul):
        replies = tuple(prompts.SELF_CHECK_CHOICES)
    try:
        if isinstance(prompt, MediaError):
            raise prompt
        messages = [("user", prompt)]
        choice = yield Call(agent.choice, agent.achoice, (messages, replies), {"strict": blocks})
    except Exception as error:
        return _Reply(agent.name, {key: _describe(error, agent)})
    row = [choice.probabilities[reply] for reply in replies]
    vote = _Vote(row, choice.mass)
    return _Reply(agent.name, {key: vote}, create_usage(choice.input_tokens, choice.output_tokens))


def _labels(key: str, question: Question) -> tuple[str, ...]:
    if isinstance(question, Noul):
        return _TRUTH
    if not isinstance(question, Choice | Score):
        kinds = "a Noul, a Choice or a Score: a group has no mean of places in an image"
        raise ValueError(
            f'question "{key}" must be {kinds}; got {type(question).__name__}. Ask one model for a Box'
        )
    n_labels = len(question.criteria)
    most = len(string.ascii_uppercase)
    must = f'question "{key}" must have at most {most} labels or levels'
    require(n_labels <= most, must, n_labels, "Ask in two steps")
    if isinstance(question, Choice):
        return tuple(question.criteria)
    return tuple(map(str, range(n_labels)))


def _by_label(labels: Sequence[str], row: Iterable[float]) -> dict[str, float]:
    return {label: min(float(p), 1.0) for label, p in zip(labels, row, strict=True)}


def _read(answer: Answer | None, question: Question, labels: Sequence[str]) -> _Vote | str:
    """Returns the distribution of another decision model's answer, or why it is not usable."""
    kind = _ANSWERS[question.type]
    if not isinstance(answer, kind):
        must = f"the answer to a {type(question).__name__} must be a {kind.__name__}"
        return describe_error(InvalidReplyError(f"{must}; got {type(answer).__name__}"))
    shares: dict[str, float] = {}
    if isinstance(answer, NoulAnswer):
        shares = dict(zip(_TRUTH, (answer.noul, 1.0 - answer.noul), strict=True))
    else:
        for label, share in answer.probabilities.items():
            shares[str(label)] = share
    row = np.array([shares.get(label, 0.0) for label in labels])
    # NaN and infinity are not valid, either
    sums_to_1 = bool(np.all(row >= 0)) and abs(row.sum() - 1.0) <= _ROUNDING
    if not sums_to_1 or not set(shares) <= set(labels):
        must = f"the probabilities of {', '.join(labels)} must be at least 0 and sum to 1"
        return describe_error(InvalidReplyError(f"{must}; got {shares}"))
    return _Vote((row / row.sum()).tolist())


def _to_answer(question: Question, shares: Mapping[str, float], blocking: str | None) -> Answer:
    p = list(shares.values())
    if isinstance(question, Noul):
        return NoulAnswer(type="noul", noul=p[0])
    if isinstance(question, Score):
        levels = dict(enumerate(p))
        expected = sum(level * share for level, share in levels.items())
        legend = dict(enumerate(question.criteria))
        return ScoreAnswer(
            type="score", score=expected, legend=legend, probabilities=levels, confidence=max(p)
        )
    leading = list(compress(shares, shares_lead(np.array(p))))
    chosen = blocking if blocking in leading else leading[0]
    return ChoiceAnswer(
        type="choice", choice=chosen, probabilities=dict(shares), confidence=shares[chosen]
    )
