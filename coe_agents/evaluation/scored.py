"""Owns what scoring finds out about one question: a row that can be kept and read again, wherever it was computed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.correctness import Criterion, with_verdicts
from coe_agents.evaluation.estimators import ESTIMATORS
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.statistics import Statistics, measured
from coe_agents.policy import Weighting


class AgentScore(NamedTuple):
    """One agent's responses to one question."""

    entropy: float
    n_responses: int
    by_probability: bool


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """What scoring finds out about one question.

    Attributes:
        id: The question's id.
        failures: Failed requests by agent.
        agents: Of each agent that responded; empty where none did.
        correct: Whether the group's answer was right, in [0, 1]; of a tie the share of its answers that is right. None
            where that cannot be said.
        tied: Whether several answers share the lead.
        scores: By estimator, None where it could not be computed; empty unless `correct` is known.
    """

    id: str
    failures: Mapping[str, int]
    agents: Mapping[str, AgentScore] = field(default_factory=dict)
    correct: float | None = None
    tied: bool = False
    scores: Mapping[str, float | None] = field(default_factory=dict)


def score_each(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting,
    criterion: Criterion,
    entailment: EntailmentModel | None,
    on_question: Callable[[Statistics, float | None], None] = lambda statistics, correct: None,
) -> Iterator[ScoredQuestion]:
    """Yields what is found out about each question; a few are held at a time. The options are those of `score`."""
    unanswered: list[ScoredQuestion] = []

    def answered() -> Iterator[SampledQuestion]:
        for question in questions:
            if not question.responses:
                unanswered.append(ScoredQuestion(question.id, _failures(question)))
            yield question

    statistics = measured(answered(), clusterer=clusterer, weighting=weighting, entailment=entailment)
    for each, verdict in with_verdicts(statistics, criterion):
        on_question(each, verdict)
        yield _scored(each, verdict)
        yield from unanswered
        unanswered.clear()
    yield from unanswered


def _scored(statistics: Statistics, correct: float | None) -> ScoredQuestion:
    scores = {name: estimator(statistics) for name, estimator in ESTIMATORS.items()} if correct is not None else {}
    return ScoredQuestion(
        statistics.question.id,
        _failures(statistics.question),
        {
            name: AgentScore(agent.entropy, agent.n_responses, agent.weighting == "probability")
            for name, agent in statistics.measurement.agents.items()
        },
        correct,
        statistics.is_tied,
        scores,
    )


def _failures(question: SampledQuestion) -> Mapping[str, int]:
    return Counter(failure["agent"] for failure in question.failures)
