"""Owns what is computed once per question, for all estimators to read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import cast

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel, canonical_answer, cluster_many
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.evaluation.samples import Question, Sample
from coe_agents.evaluation.tallies import FloatArray, IntArray
from coe_agents.policy import Measurement, Weighting, measure
from coe_agents.policy.measurement import response_text
from coe_agents.policy.weighing import log_probabilities, most_probable, shares
from coe_agents.uncertainty import cluster_distributions, leading_cluster

_BATCH = 64
"""Questions that go to the clusterer together."""


@dataclass(frozen=True)
class Statistics:
    """One question's responses, clustered and measured; at least one response.

    Attributes:
        question: The question and its samples; `responses` are in the order of `labels`.
        labels: The cluster of each response.
        measurement: What a policy would be shown.
        affinity: Shape `(n_clusters, n_clusters)`, in [0, 1]: the mean of both directions' probability of entailment
            between the clusters' first responses, with a diagonal of 1. The identity without an entailment model.
    """

    question: Question
    labels: IntArray
    measurement: Measurement
    affinity: FloatArray

    @cached_property
    def responses(self) -> tuple[Sample, ...]:
        return self.question.responses

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The agents that responded, in the order of the rows of `distributions`."""
        return tuple(self.measurement.agents)

    @cached_property
    def agents(self) -> IntArray:
        """The row of each response's agent."""
        return np.array([self.names.index(response["agent"]) for response in self.responses])

    @cached_property
    def log_probs(self) -> FloatArray:
        """Length-normalised log-probabilities; one constant for each agent that counts by frequency."""
        by_frequency = {name for name, agent in self.measurement.agents.items() if agent.weighting == "frequency"}
        known = log_probabilities(self.responses, "auto")[0]
        return np.where([response["agent"] in by_frequency for response in self.responses], 0.0, known)

    @cached_property
    def all_by_probability(self) -> bool:
        return all(log_probabilities(self.responses, "auto")[1].values())

    @cached_property
    def distributions(self) -> FloatArray:
        """Shape `(n_agents, n_clusters)`, by the weighting asked for."""
        return cluster_distributions(self.labels, self.agents, log_probs=self.log_probs)

    @cached_property
    def frequencies(self) -> FloatArray:
        """The same, each response counting 1."""
        return cluster_distributions(self.labels, self.agents)

    @cached_property
    def probabilities(self) -> FloatArray | None:
        """The same by length-normalised probability; None unless all responses have one."""
        if not self.all_by_probability:
            return None
        log_probs = log_probabilities(self.responses, "probability")[0]
        return cluster_distributions(self.labels, self.agents, log_probs=log_probs)

    @cached_property
    def leading(self) -> int:
        """The chosen cluster."""
        return int(leading_cluster(self.distributions))

    def answer_of(self, cluster: int) -> str:
        """Returns a cluster's most probable response."""
        inside = [
            response_text(response) if label == cluster else None
            for response, label in zip(self.responses, self.labels, strict=True)
        ]
        return most_probable(inside, shares(self.log_probs, self.agents))


def measured(
    questions: Iterable[Question],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    entailment: EntailmentModel | None = None,
) -> Iterator[Statistics]:
    """Yields the statistics of each question that has a response; a few questions are held at a time.

    What is compared of a response is its `answer`, else the canonical answer of its text.

    Args:
        questions: As `Samples` gives them.
        clusterer: Decides which responses mean the same.
        weighting: How responses count within their agent, as in `measure`.
        entailment: For the affinity between clusters; two requests' worth of pairs per pair of clusters.

    Raises:
        ValueError: If `weighting` is "probability" and an agent lacks log-probabilities.
    """
    answered = (_with_answers(question) for question in questions if question.responses)
    while batch := list(islice(answered, _BATCH)):
        texts = [[response_text(response) for response in question.responses] for question in batch]
        labels = cluster_many(texts, questions=[question.text for question in batch], clusterer=clusterer)
        affinities = _affinities(batch, texts, labels, entailment)
        for question, own, affinity in zip(batch, labels, affinities, strict=True):
            try:
                measurement = measure(question.responses, own, weighting=weighting, n_resamples=0)
            except ValueError as error:
                raise ValueError(f"question {question.id!r}: {error}") from error
            yield Statistics(question, np.array(own), measurement, affinity)


def _with_answers(question: Question) -> Question:
    responses = [
        response if response["answer"] is not None else {**response, "answer": canonical_answer(response["text"])}
        for response in question.responses
    ]
    return Question(
        question.id, question.text, question.references, cast("tuple[Sample, ...]", tuple(responses)), question.failures
    )


def _affinities(
    batch: Sequence[Question],
    texts: Sequence[Sequence[str]],
    labels: Sequence[Sequence[int]],
    entailment: EntailmentModel | None,
) -> list[FloatArray]:
    """The affinity matrix of each question; all pairs go to the model in one request."""
    matrices = [np.eye(max(own) + 1) for own in labels]
    if entailment is None:
        return matrices
    pairs: list[tuple[str, str]] = []
    for question, said, own in zip(batch, texts, labels, strict=True):
        first = [" ".join(f"{question.text} {said[own.index(cluster)]}".split()) for cluster in range(max(own) + 1)]
        pairs += [(a, b) for i, a in enumerate(first) for j, b in enumerate(first) if i != j]
    entailed = iter(np.asarray(entailment.predict(pairs))[:, ENTAILMENT].tolist() if pairs else ())
    for matrix in matrices:
        off_diagonal = ~np.eye(len(matrix), dtype=bool)
        matrix[off_diagonal] = [next(entailed) for _ in range(off_diagonal.sum())]
        matrix[:] = (matrix + matrix.T) / 2.0
    return matrices
