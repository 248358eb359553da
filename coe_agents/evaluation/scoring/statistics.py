"""Owns what is computed once per question, for all estimators to read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice, permutations
from typing import Literal, cast

import numpy as np

from coe_agents.clustering import Clusterer, EntailmentModel, canonical_answer, cluster_many
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.evaluation.samples import Sample, SampledQuestion
from coe_agents.policy import Measurement, Weighting, measure
from coe_agents.policy.measurement import response_text
from coe_agents.policy.weighting import log_probabilities, most_probable, shares
from coe_agents.uncertainty import CollaborativeEntropy, cluster_distributions, collaborative_entropy, entropy
from coe_agents.uncertainty.answers import shares_lead

ActionKind = Literal["call", "no_call"]
BATCH = 64
"""Questions with a response that go to the clusterer together, and then to the criterion of correctness."""


@dataclass(frozen=True)
class Statistics:
    """One question's responses, clustered and measured; at least one response.

    Attributes:
        question: The question and its samples; `responses` are in the order of `labels`.
        labels: The cluster of each response; clusters are numbered by their texts, so that agents do not matter.
        measurement: What a policy receives.
        affinity: Shape `(n_clusters, n_clusters)`, in [0, 1]: the mean of both directions' probability of entailment
            between the clusters' most probable responses, with a diagonal of 1. The identity without an entailment
            model.
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
        proposer: The agent whose first response is judged; None where the group's answer is.
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
    proposer: str | None = None

    @cached_property
    def responses(self) -> tuple[Sample, ...]:
        return self.question.responses

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The agents that responded, in the order of the rows of `distributions`."""
        return tuple(dict.fromkeys(response["agent"] for response in self.responses))

    @cached_property
    def support(self) -> FloatArray:
        """The ensemble mean of each cluster, shape `(n_clusters,)`."""
        return np.asarray(self.distributions.mean(axis=0))

    @cached_property
    def leading(self) -> tuple[int, ...]:
        """The clusters that share the lead: one, or more on a tie."""
        return tuple(np.flatnonzero(shares_lead(self.support)).tolist())

    @cached_property
    def proposal(self) -> int | None:
        """The place of the proposer's first response, that of the lowest round and index; None without one."""
        return next((i for i, each in enumerate(self.responses) if each["agent"] == self.proposer), None)

    @cached_property
    def action_kind(self) -> ActionKind | None:
        """Whether a tool is called, by the proposal or else by the group's answer; None of texts.

        Where the lead is shared, one action that calls is enough.
        """
        judged = (
            [row for row, label in zip(self.responses, self.labels, strict=True) if label in self.leading]
            if self.proposer is None
            else []
            if self.proposal is None
            else [self.responses[self.proposal]]
        )
        if all(response.get("calls") is None for response in judged):
            return None
        return "call" if any(response.get("calls") for response in judged) else "no_call"

    @cached_property
    def response_shares(self) -> FloatArray:
        """Each response's share of its agent's distribution, shape `(n_responses,)`."""
        return shares(self.log_probs, self.agents)

    @property
    def is_tied(self) -> bool:
        """Whether several clusters share the lead."""
        return len(self.leading) > 1

    def answer_of(self, cluster: int) -> str:
        """Returns a cluster's most probable response; of tool calls the canonical action."""
        if self.leading == (cluster,) and self.measurement.calls is None:
            return self.measurement.answer
        inside = [
            response_text(response) if label == cluster else None
            for response, label in zip(self.responses, self.labels, strict=True)
        ]
        return most_probable(inside, self.response_shares)


def iter_statistics(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    entailment: EntailmentModel | None = None,
    proposer: str | None = None,
) -> Iterator[Statistics]:
    """Yields the statistics of each question that has a response; a few questions are held at a time.

    Responses are compared by their `answer`, else by the canonical answer of their text. For the affinity between
    clusters, `entailment` is asked two pairs per pair of clusters; the other arguments are as in `ScoringSetup`.

    Raises:
        ValueError: If `weighting` is "probability" and an agent lacks log-probabilities.
    """
    answered = (_fill_answers(question) for question in questions if question.responses)
    while batch := list(islice(answered, BATCH)):
        texts = [[response_text(response) for response in question.responses] for question in batch]
        found = cluster_many(texts, questions=[question.text for question in batch], clusterer=clusterer)
        labels = [_number_by_text(texts_of_one, own) for texts_of_one, own in zip(texts, found, strict=True)]
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, question in enumerate(batch):
            alike.setdefault(tuple(response["agent"] for response in question.responses), []).append(place)
        ready: dict[int, Statistics] = {}
        for places in alike.values():
            chosen, own_labels = [batch[place] for place in places], [labels[place] for place in places]
            ready.update(zip(places, _compute_statistics(chosen, own_labels, weighting), strict=True))
        statistics = [replace(ready[place], proposer=proposer) for place in range(len(batch))]
        yield from statistics if entailment is None else _with_affinities(statistics, entailment)


def _measure(question: SampledQuestion, labels: Sequence[int], weighting: Weighting) -> Measurement:
    try:
        return measure(question.responses, labels, weighting=weighting, n_resamples=0, with_contested=False)
    except ValueError as error:
        raise ValueError(f"question {question.id!r}: {error}") from error


def _compute_statistics(
    questions: Sequence[SampledQuestion], labels: Sequence[Sequence[int]], weighting: Weighting
) -> Iterator[Statistics]:
    """Yields the statistics of questions with as many responses of the same agents: one array operation serves all.

    Distributions are padded with clusters of probability 0, which change no figure.
    """
    measurements = [_measure(question, own, weighting) for question, own in zip(questions, labels, strict=True)]
    numbers: dict[str, int] = {}
    agents = np.array([numbers.setdefault(response["agent"], len(numbers)) for response in questions[0].responses])
    clusters = np.array(labels)
    known = [log_probabilities(question.responses, "auto") for question in questions]
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
    for i, question in enumerate(questions):
        n_clusters = max(labels[i]) + 1
        complete = all(known[i][1].values())
        yield Statistics(
            question=question,
            labels=clusters[i],
            measurement=measurements[i],
            affinity=np.eye(n_clusters),
            agents=agents,
            log_probs=log_probs[i],
            distributions=distributions[i, :, :n_clusters],
            frequencies=frequencies[i, :, :n_clusters],
            probabilities=probabilities[i, :, :n_clusters] if complete else None,
            coe_js=js[i],
            coe_hellinger=hellinger[i],
            coe_total_variation=total_variation[i],
            by_frequency=by_frequency[i],
            by_probability=by_probability[i] if complete else None,
            pooled_by_frequency=pooled_by_frequency[i],
            pooled_by_probability=pooled_by_probability[i] if complete else None,
        )


def _fill_answers(question: SampledQuestion) -> SampledQuestion:
    answer_of = cache(canonical_answer)  # many texts are equal
    responses = [
        response if response["answer"] is not None else {**response, "answer": answer_of(response["text"])}
        for response in question.responses
    ]
    return replace(question, responses=cast("tuple[Sample, ...]", tuple(responses)))


def _number_by_text(texts: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Numbers the clusters in the order of their texts: the order of the responses changes nothing."""
    inside: dict[int, set[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        inside.setdefault(label, set()).add(text)
    ranked = sorted(inside, key=lambda label: sorted(inside[label]))
    numbers = {label: number for number, label in enumerate(ranked)}
    return [numbers[label] for label in labels]


def _with_affinities(batch: Sequence[Statistics], entailment: EntailmentModel) -> Iterator[Statistics]:
    """Yields the statistics with the affinities that the model gives; all pairs go to it in one request."""
    pairs: list[tuple[str, str]] = []
    for each in batch:
        answers = [each.answer_of(cluster) for cluster in range(len(each.support))]
        pairs += permutations([" ".join(f"{each.question.text} {answer}".split()) for answer in answers], 2)
    entailed = iter(np.asarray(entailment.predict(pairs))[:, ENTAILMENT].tolist() if pairs else ())
    for each in batch:
        matrix = np.eye(len(each.support))
        off_diagonal = matrix == 0.0
        matrix[off_diagonal] = [next(entailed) for _ in range(off_diagonal.sum())]
        yield replace(each, affinity=(matrix + matrix.T) / 2.0)
