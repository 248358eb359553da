"""Owns what is computed once per question, for all estimators to read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, cast

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel, canonical_answer, cluster_many
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.evaluation.samples import Sample, SampledQuestion
from coe_agents.evaluation.tallies import FloatArray, IntArray
from coe_agents.policy import Measurement, Weighting, measure
from coe_agents.policy.measurement import response_text
from coe_agents.policy.weighing import log_probabilities, most_probable, shares
from coe_agents.uncertainty import CollaborativeEntropy, cluster_distributions, collaborative_entropy, entropy
from coe_agents.uncertainty.answers import first_highest

BATCH = 64
"""Questions with a response that go to the clusterer together, and then to the criterion of correctness."""


@dataclass(frozen=True)
class Statistics:
    """One question's responses, clustered and measured; at least one response.

    Attributes:
        question: The question and its samples; `responses` are in the order of `labels`.
        labels: The cluster of each response.
        measurement: What a policy would be shown.
        affinity: Shape `(n_clusters, n_clusters)`, in [0, 1]: the mean of both directions' probability of entailment
            between the clusters' first responses, with a diagonal of 1. The identity without an entailment model.
        agents: The row of each response's agent.
        log_probs: Length-normalised log-probabilities; one constant for each agent that counts by frequency.
        distributions: Shape `(n_agents, n_clusters)`, by the weighting asked for.
        frequencies: The same, each response counting 1.
        probabilities: The same by length-normalised probability; None unless all responses have one.
        coe_js: CoE of `distributions` under the Jensen-Shannon divergence.
        coe_hellinger: Under the Hellinger distance.
        coe_total_variation: Under the Wasserstein distance with distances of 1.
        by_frequency: CoE of `frequencies`, and its parts.
        by_probability: CoE of `probabilities`, and its parts.
        pooled_by_frequency: Entropy of all responses as one agent's, each counting 1.
        pooled_by_probability: The same by length-normalised probability.
    """

    question: SampledQuestion
    labels: IntArray
    measurement: Measurement
    affinity: FloatArray
    agents: IntArray
    log_probs: FloatArray
    distributions: FloatArray
    frequencies: FloatArray
    probabilities: FloatArray | None
    coe_js: float
    coe_hellinger: float
    coe_total_variation: float
    by_frequency: CollaborativeEntropy
    by_probability: CollaborativeEntropy | None
    pooled_by_frequency: float
    pooled_by_probability: float | None

    @cached_property
    def responses(self) -> tuple[Sample, ...]:
        return self.question.responses

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The agents that responded, in the order of the rows of `distributions`."""
        return tuple(self.measurement.agents)

    @cached_property
    def leading(self) -> int:
        """The chosen cluster."""
        return int(first_highest(np.array(self.measurement.support)))

    def answer_of(self, cluster: int) -> str:
        """Returns a cluster's most probable response."""
        if cluster == self.leading:
            return self.measurement.answer
        inside = [
            response_text(response) if label == cluster else None
            for response, label in zip(self.responses, self.labels, strict=True)
        ]
        return most_probable(inside, shares(self.log_probs, self.agents))


def measured(
    questions: Iterable[SampledQuestion],
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
    while batch := list(islice(answered, BATCH)):
        texts = [[response_text(response) for response in question.responses] for question in batch]
        labels = cluster_many(texts, questions=[question.text for question in batch], clusterer=clusterer)
        affinities = _affinities(batch, texts, labels, entailment)
        rows = []
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, (question, own, affinity) in enumerate(zip(batch, labels, affinities, strict=True)):
            try:
                measurement = measure(question.responses, own, weighting=weighting, n_resamples=0)
            except ValueError as error:
                raise ValueError(f"question {question.id!r}: {error}") from error
            rows.append(_Measured(question, own, measurement, affinity))
            alike.setdefault(tuple(response["agent"] for response in question.responses), []).append(place)
        found: dict[int, Statistics] = {}
        for places in alike.values():
            found.update(zip(places, _together([rows[place] for place in places], weighting), strict=True))
        yield from (found[place] for place in range(len(batch)))


class _Measured(NamedTuple):
    question: SampledQuestion
    labels: list[int]
    measurement: Measurement
    affinity: FloatArray


def _together(rows: Sequence[_Measured], weighting: Weighting) -> Iterator[Statistics]:
    """Yields the statistics of questions with as many responses of the same agents: one array operation serves all.

    Distributions are padded with clusters of probability 0, which change no figure.
    """
    numbers = {name: number for number, name in enumerate(rows[0].measurement.agents)}
    agents = np.array([numbers[response["agent"]] for response in rows[0].question.responses])
    clusters = np.array([row.labels for row in rows])
    known = [log_probabilities(row.question.responses, "auto") for row in rows]
    likely = np.array([log_probs for log_probs, _ in known])
    frequencies = cluster_distributions(clusters, agents)
    probabilities = cluster_distributions(clusters, agents, log_probs=likely)
    log_probs, distributions = (
        (np.zeros_like(likely), frequencies) if weighting == "frequency" else (likely, probabilities)
    )
    js, hellinger, total_variation = (
        collaborative_entropy(distributions, divergence=name).total.tolist()
        for name in ("js", "hellinger", "wasserstein")
    )
    by_frequency, by_probability = (
        [CollaborativeEntropy(*parts) for parts in zip(*(part.tolist() for part in split), strict=True)]
        for split in map(collaborative_entropy, (frequencies, probabilities))
    )
    pool = np.zeros_like(agents)
    pooled_by_frequency, pooled_by_probability = (
        entropy(cluster_distributions(clusters, pool, log_probs=each)[:, 0]).tolist() for each in (None, likely)
    )
    for i, row in enumerate(rows):
        own = slice(len(row.affinity))
        complete = all(known[i][1].values())
        yield Statistics(
            question=row.question,
            labels=clusters[i],
            measurement=row.measurement,
            affinity=row.affinity,
            agents=agents,
            log_probs=log_probs[i],
            distributions=distributions[i, :, own],
            frequencies=frequencies[i, :, own],
            probabilities=probabilities[i, :, own] if complete else None,
            coe_js=js[i],
            coe_hellinger=hellinger[i],
            coe_total_variation=total_variation[i],
            by_frequency=by_frequency[i],
            by_probability=by_probability[i] if complete else None,
            pooled_by_frequency=pooled_by_frequency[i],
            pooled_by_probability=pooled_by_probability[i] if complete else None,
        )


def _with_answers(question: SampledQuestion) -> SampledQuestion:
    texts = {response["text"] for response in question.responses if response["answer"] is None}
    answers = {text: canonical_answer(text) for text in texts}
    responses = [
        response if response["answer"] is not None else {**response, "answer": answers[response["text"]]}
        for response in question.responses
    ]
    return SampledQuestion(
        question.id, question.text, question.references, cast("tuple[Sample, ...]", tuple(responses)), question.failures
    )


def _affinities(
    batch: Sequence[SampledQuestion],
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
