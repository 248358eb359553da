"""Owns the way from samples to score vectors: every estimator on every question, and whether the answer was right."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel
from coe_agents.evaluation.best_agent import best_single_model
from coe_agents.evaluation.correctness import CRITERIA, Criterion
from coe_agents.evaluation.estimators import ESTIMATORS
from coe_agents.evaluation.samples import SampledQuestion
from coe_agents.evaluation.scored import ScoredQuestion, score_each
from coe_agents.evaluation.statistics import Statistics
from coe_agents.evaluation.tallies import FloatArray, join_ties
from coe_agents.policy import Weighting


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
        correct: Whether the group's answer was right, in [0, 1]: of a tie the share of its answers that is right, of a
            cluster whose labels differ the share of labels that says so.
        n_ties: The rows where several answers share the lead.
        values: Each score that could be computed for all rows; higher = less sure. Values within 1e-9 are equal
            (`join_ties`).
        absent: Each other score, with the number of rows that lack it.
        criterion: The name of the criterion of correctness.
        clusterer: The name of the clusterer.
        weighting: As asked for.
        n_questions: All questions, scored or not.
        n_unanswered: Those without any response.
        n_unjudged: Those whose correctness cannot be said.
        agents: What each agent contributed, by name.
    """

    correct: FloatArray
    n_ties: int
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
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    criterion: Criterion = CRITERIA["reference_or_label"],
    entailment: EntailmentModel | None = None,
    on_question: Callable[[Statistics, float | None], None] = lambda statistics, correct: None,
) -> Scores:
    """Scores every question with every estimator; only the score vectors are kept, some 300 bytes a question.

    Args:
        questions: As `Samples` gives them, one at a time.
        clusterer: Decides which responses mean the same.
        weighting: How responses count within their agent: "auto", "frequency" or "probability".
        criterion: Decides which answers are right.
        entailment: For the distances between clusters that `coe_wasserstein` and the graph scores read.
        on_question: Called with each question that has a response, and whether the answer was right, in [0, 1].

    Raises:
        SamplesError: A line of the samples is malformed.
        ValueError: "probability" is asked for and an agent lacks log-probabilities.
    """
    rows = score_each(
        questions,
        clusterer=clusterer,
        weighting=weighting,
        criterion=criterion,
        entailment=entailment,
        on_question=on_question,
    )
    return to_scores(rows, criterion=criterion.name, clusterer=type(clusterer).__name__, weighting=weighting)


def to_scores(rows: Iterable[ScoredQuestion], *, criterion: str, clusterer: str, weighting: Weighting) -> Scores:
    """Returns the score vectors of rows that stand in the order of ids; the names are those that reports tell."""
    agents: dict[str, AgentCount] = {}
    table = _Table()
    n_questions = n_unanswered = 0
    for row in rows:
        n_questions += 1
        n_unanswered += not row.agents
        for name, n_failures in row.failures.items():
            agents.setdefault(name, AgentCount()).n_failures += n_failures
        for name, agent in row.agents.items():
            count = agents.setdefault(name, AgentCount())
            count.n_questions += 1
            count.n_responses += agent.n_responses
            count.by_probability += agent.by_probability
        if row.correct is not None:
            table.add(row, row.correct)
    correct, values, absent = table.columns()
    return Scores(
        correct=correct,
        n_ties=table.n_ties,
        values=values,
        absent=absent,
        criterion=criterion,
        clusterer=clusterer,
        weighting=weighting,
        n_questions=n_questions,
        n_unanswered=n_unanswered,
        n_unjudged=n_questions - n_unanswered - correct.size,
        agents=dict(sorted(agents.items())),
    )


def in_second_half(identifier: str) -> bool:
    """Tells which half of the questions an id belongs to, for cross-fitting; it hangs on nothing else."""
    return sha256(identifier.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


class _Table:
    """Rows of numbers that grow; NaN marks what could not be computed, until `columns` takes it out."""

    def __init__(self) -> None:
        self.n_ties = 0
        self._correct, self._halves = array("d"), array("b")
        self._scores = {name: array("d") for name in ESTIMATORS}
        self._entropies: dict[str, array[float]] = {}

    def add(self, row: ScoredQuestion, correct: float) -> None:
        self.n_ties += row.tied
        for name, column in self._scores.items():
            value = row.scores[name]
            column.append(np.nan if value is None else value)
        for name in row.agents.keys() - self._entropies.keys():
            self._entropies[name] = array("d", [np.nan]) * len(self._correct)
        for name, column in self._entropies.items():
            column.append(row.agents[name].entropy if name in row.agents else np.nan)
        self._correct.append(correct)
        self._halves.append(in_second_half(row.id))

    def columns(self) -> tuple[FloatArray, dict[str, FloatArray], dict[str, int]]:
        correct, halves = _vector(self._correct), np.asarray(self._halves).astype(np.bool_)
        columns = {name: _vector(values) for name, values in self._scores.items()}
        entropies = {name: _vector(values) for name, values in self._entropies.items()}
        columns["best_single_model"] = best_single_model(entropies, correct, halves)
        lacking = {name: int(np.isnan(column).sum()) for name, column in columns.items()}
        values = {name: join_ties(column) for name, column in columns.items() if not lacking[name]}
        return correct, values, {name: n for name, n in lacking.items() if n}


def _vector(values: "array[float]") -> FloatArray:
    return np.asarray(values)  # the same memory
