"""Owns the way from samples to score vectors: every estimator on every question, and whether the answer was right."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.best_agent import best_single_model
from coe_agents.evaluation.correctness import CRITERIA, Criterion, Prediction, judge
from coe_agents.evaluation.estimators import ESTIMATORS
from coe_agents.evaluation.samples import Question
from coe_agents.evaluation.statistics import Statistics, measured
from coe_agents.evaluation.tallies import BoolArray, FloatArray
from coe_agents.policy import Weighting

_BATCH = 64
"""Predictions that go to the criterion together."""
_DIGITS = 10
"""To which scores are kept: what is equal but for rounding is a tie, and not ranked by its last bits."""


@dataclass(slots=True)
class AgentCount:
    """What one agent contributed.

    Attributes:
        n_questions: Questions that it responded to.
        n_responses: Its responses.
        n_failures: Its failed requests.
        by_probability: Questions on which its responses count by probability; by frequency on the others.
    """

    n_questions: int = 0
    n_responses: int = 0
    n_failures: int = 0
    by_probability: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """The score vectors of a set of samples; a row is a question that could be scored, in the order of ids.

    Attributes:
        correct: Whether the group's answer was right.
        values: Each score that could be computed for all rows; higher = less sure.
        absent: Each other score, with the number of rows that lack it.
        criterion: The name of the criterion of correctness.
        clusterer: The name of the clusterer.
        weighting: As asked for.
        n_questions: All questions, scored or not.
        n_unanswered: Those without any response.
        n_unjudged: Those whose correctness cannot be said.
        agents: What each agent contributed, by name.
    """

    correct: BoolArray
    values: dict[str, FloatArray]
    absent: dict[str, int]
    criterion: str
    clusterer: str
    weighting: Weighting
    n_questions: int
    n_unanswered: int
    n_unjudged: int
    agents: dict[str, AgentCount]


def score(
    questions: Iterable[Question],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    entailment: EntailmentModel | None = None,
    on_question: Callable[[Statistics, bool | None], None] = lambda statistics, correct: None,
) -> Scores:
    """Scores every question with every estimator; only the score vectors are kept, some 300 bytes a question.

    Args:
        questions: As `Samples` gives them, one at a time.
        clusterer: Decides which responses mean the same.
        weighting: How responses count within their agent: "auto", "frequency" or "probability".
        criterion: Decides which answers are right.
        entailment: For the distances between clusters that `coe_wasserstein` and the graph scores read.
        on_question: Called with each question that has a response, and whether the answer was right.

    Raises:
        SamplesError: A line of the samples is malformed.
        ValueError: "probability" is asked for and an agent lacks log-probabilities.
    """
    census = _Census()
    table = _Table()
    statistics = measured(census.counting(questions), clusterer=clusterer, weighting=weighting, entailment=entailment)
    while batch := list(islice(statistics, _BATCH)):
        verdicts = judge([Prediction.of(each) for each in batch], criterion)
        for each, verdict in zip(batch, verdicts, strict=True):
            census.measured(each)
            on_question(each, verdict)
            if verdict is not None:
                table.add(each, verdict)
    correct, values, absent = table.columns()
    return Scores(
        correct=correct,
        values=values,
        absent=absent,
        criterion=criterion.name,
        clusterer=type(clusterer).__name__,
        weighting=weighting,
        n_questions=census.n_questions,
        n_unanswered=census.n_unanswered,
        n_unjudged=census.n_questions - census.n_unanswered - correct.size,
        agents=dict(sorted(census.agents.items())),
    )


def in_second_half(identifier: str) -> bool:
    """Tells which half of the questions an id belongs to, for cross-fitting; it hangs on nothing else."""
    return sha256(identifier.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


@dataclass(slots=True)
class _Census:
    n_questions: int = 0
    n_unanswered: int = 0
    agents: dict[str, AgentCount] = field(default_factory=dict)

    def counting(self, questions: Iterable[Question]) -> Iterable[Question]:
        for question in questions:
            self.n_questions += 1
            self.n_unanswered += not question.responses
            for failure in question.failures:
                self.agents.setdefault(failure["agent"], AgentCount()).n_failures += 1
            yield question

    def measured(self, statistics: Statistics) -> None:
        for name, agent in statistics.measurement.agents.items():
            count = self.agents.setdefault(name, AgentCount())
            count.n_questions += 1
            count.n_responses += agent.n_responses
            count.by_probability += agent.weighting == "probability"


class _Table:
    """Rows of numbers that grow; NaN marks what could not be computed, until `columns` takes it out."""

    def __init__(self) -> None:
        self._correct, self._halves = array("b"), array("b")
        self._scores = {name: array("d") for name in ESTIMATORS}
        self._entropies: dict[str, array[float]] = {}

    def add(self, statistics: Statistics, correct: bool) -> None:
        for name, estimator in ESTIMATORS.items():
            value = estimator(statistics)
            self._scores[name].append(np.nan if value is None else round(value, _DIGITS))
        agents = statistics.measurement.agents
        for name in agents.keys() - self._entropies.keys():
            self._entropies[name] = array("d", [np.nan]) * len(self._correct)
        for name, column in self._entropies.items():
            column.append(round(agents[name].entropy, _DIGITS) if name in agents else np.nan)
        self._correct.append(correct)
        self._halves.append(in_second_half(statistics.question.id))

    def columns(self) -> tuple[BoolArray, dict[str, FloatArray], dict[str, int]]:
        correct, halves = (np.asarray(flags).astype(np.bool_) for flags in (self._correct, self._halves))
        complete = {name: _vector(self._entropies[name]) for name in sorted(self._entropies)}
        columns = {name: _vector(values) for name, values in self._scores.items()}
        columns["best_single_model"] = best_single_model(complete, correct, halves)
        lacking = {name: int(np.isnan(column).sum()) for name, column in columns.items()}
        values = {name: column for name, column in columns.items() if not lacking[name]}
        return correct, values, {name: n for name, n in lacking.items() if n}


def _vector(values: "array[float]") -> FloatArray:
    return np.asarray(values)  # the same memory
