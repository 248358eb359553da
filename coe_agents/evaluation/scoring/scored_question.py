"""Owns scoring one question: what it depends on besides the samples, and the result, a row that can be kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import NamedTuple

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.scoring.correctness import CRITERIA, Criterion, is_inside, with_verdicts
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.extensions import find_registered
from coe_agents.policy.estimators import Estimator, find_estimators
from coe_agents.policy.statistics import ActionKind, Statistics
from coe_agents.policy.weighting import Weighting
from coe_agents.types import SampledQuestion


@dataclass(frozen=True, slots=True)
class ScoringSetup:
    """How responses become scores and verdicts.

    Attributes:
        entailment: For the distances between clusters that `coe_wasserstein` reads; None: 0/1.
        weighting: How responses count within their agent: "auto", "frequency" or "probability".
        estimators: Scores beyond the built-in and the installed ones, by name: each takes `Statistics` and returns a
            float, higher = less sure, or None where it cannot be computed.
        proposer: The agent whose first response is judged; None: the group's answer is.
        installed: The entry points of the installed estimators, which take 9 ms to find.
    """

    clusterer: Clusterer
    criterion: Criterion = CRITERIA["reference_or_label"]
    entailment: EntailmentModel | None = None
    weighting: Weighting = "auto"
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    proposer: str | None = None
    installed: Sequence[EntryPoint] = field(default_factory=lambda: find_registered("estimator"))

    @property
    def all_estimators(self) -> dict[str, Estimator]:
        return find_estimators(self.estimators, of_proposal=self.proposer is not None, installed=self.installed)

    def judge(self, questions: Iterable[SampledQuestion]) -> Iterator[tuple[Statistics, float | None]]:
        """Yields the statistics of each question that has a response, with the verdict on what is judged."""
        statistics = iter_statistics(
            questions,
            clusterer=self.clusterer,
            weighting=self.weighting,
            entailment=self.entailment,
            proposer=self.proposer,
        )
        return with_verdicts(statistics, self.criterion)


class AgentScore(NamedTuple):
    """One agent's responses to one question."""

    entropy: float
    n_responses: int
    by_probability: bool


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """The result of scoring one question.

    Attributes:
        failures: Failed requests by agent.
        agents: Of each agent that responded; empty where none did.
        correct: Whether the group's answer was right, in [0, 1]; of a tie the share of its answers that is right. None
            where that is not known. With a proposer, whether its proposal was.
        tied: Whether several answers share the lead; with a proposer nothing ties.
        scores: By estimator, None where it could not be computed; empty unless `correct` is known.
        kind: Whether what is judged calls a tool; None of texts.
        is_inside: Whether the answer is wrong by its words alone, though a reference is in it.
    """

    id: str
    failures: Mapping[str, int]
    agents: Mapping[str, AgentScore] = field(default_factory=dict)
    correct: float | None = None
    tied: bool = False
    scores: Mapping[str, float | None] = field(default_factory=dict)
    kind: ActionKind | None = None
    lacks_proposal: bool = False
    is_inside: bool = False


def score_each(
    questions: Iterable[SampledQuestion],
    setup: ScoringSetup,
    *,
    on_question: Callable[[Statistics, float | None], None] = lambda statistics, correct: None,
) -> Iterator[ScoredQuestion]:
    """Yields the result of each question; a few are held at a time. `on_question` is as in `score`."""
    estimators = setup.all_estimators
    unanswered: list[ScoredQuestion] = []

    def answered() -> Iterator[SampledQuestion]:
        for question in questions:
            if not question.responses:
                unanswered.append(ScoredQuestion(question.id, _failures(question)))
            yield question

    for each, verdict in setup.judge(answered()):
        on_question(each, verdict)
        agents = map(AgentScore, each.entropies, each.n_responses, each.counts_by_probability)
        yield ScoredQuestion(
            each.question.id,
            _failures(each.question),
            dict(zip(each.names, agents, strict=True)),
            verdict,
            each.is_tied and setup.proposer is None,
            {} if verdict is None else {name: estimator(each) for name, estimator in estimators.items()},
            each.action_kind,
            setup.proposer is not None and each.proposal is None,
            is_inside(each, verdict),
        )
        yield from unanswered
        unanswered.clear()
    yield from unanswered


def _failures(question: SampledQuestion) -> Mapping[str, int]:
    return Counter(failure["agent"] for failure in question.failures)
