"""Owns the statistics of saved questions: their responses, clustered in batches, and measured together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, permutations
from typing import Any

import numpy as np

from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import compared_answer, has_proposals
from coe_agents.activity import COUNT
from coe_agents.clustering import Clusterer, EntailmentModel, cluster_many
from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.clustering.refusals import response_text
from coe_agents.measurement.statistics import Statistics, compute_statistics
from coe_agents.measurement.weighting import Weighting
from coe_agents.types import SampledQuestion, Weights
from coe_agents.uncertainty import collaborative_entropy

BATCH = 64
"""Questions that are measured together, and then go to the criterion of correctness."""
_TEXTS = 64
"""Distinct responses, after which a clusterer gets no more questions at a time: a model's own batch is of so many."""


def iter_statistics(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    entailment: EntailmentModel | None = None,
    proposer: str | None = None,
    weights: Weights | None = None,
) -> Iterator[Statistics]:
    """Yields the statistics of each question that has a response; a few questions are held at a time.

    Responses are compared by their `answer`, else by the canonical answer of their text. For the distances between
    clusters, `entailment` is asked two pairs per pair of clusters; the other arguments are as in `ScoringSetup`.
    `weights` are the agents' by name, 1 for those without; they change the measurement and its leading cluster, and
    questions that only agents of weight 0 answered are left out. A ValueError if `weighting` is "probability" and an
    agent lacks log-probabilities.
    """
    weight_of = weights or {}
    waiting = iter(questions)

    while together := list(islice(waiting, BATCH)):
        answer_of = cache(canonical_answer)  # many texts are equal
        batch = []
        for question in together:
            agents = {response["agent"] for response in question.responses}
            if any(weight_of.get(agent, 1.0) > 0.0 for agent in agents):
                batch.append(_fill_answers(question, answer_of))

        labels = _cluster(batch, clusterer)
        statistics = _compute_all(batch, labels, weighting, proposer, weight_of)

        if entailment is None:
            yield from statistics
        else:
            yield from _with_distances(statistics, entailment)
        COUNT.get()(len(together) - len(batch))  # those that had to be clustered are counted


def _compute_all(
    batch: Sequence[SampledQuestion],
    labels: Sequence[Sequence[int]],
    weighting: Weighting,
    proposer: str | None,
    weight_of: Weights,
) -> list[Statistics]:
    """Returns the statistics of each question; those with the same agents are computed together."""
    places_by_agents: dict[tuple[str, ...], list[int]] = {}
    for place, question in enumerate(batch):
        agents = tuple(response["agent"] for response in question.responses)
        places_by_agents.setdefault(agents, []).append(place)

    computed: dict[int, Statistics] = {}
    for places in places_by_agents.values():
        questions = [batch[place] for place in places]
        labels_of_them = [labels[place] for place in places]
        statistics = compute_statistics(questions, labels_of_them, weighting, proposer, weight_of)
        computed.update(zip(places, statistics, strict=True))

    return [computed[place] for place in range(len(batch))]


def _cluster(batch: Sequence[SampledQuestion], clusterer: Clusterer) -> list[list[int]]:
    """Returns the labels of each question's responses; tool calls are compared as actions."""
    labels: list[list[int]] = [[]] * len(batch)

    for is_proposed, compares in ((False, clusterer), (True, compare_actions(clusterer))):
        places = []
        for place, question in enumerate(batch):
            if has_proposals(question.responses) is is_proposed:
                places.append(place)

        for together in _parts(batch, places):
            texts = []
            questions = []
            for place in together:
                texts.append([response_text(response) for response in batch[place].responses])
                questions.append(batch[place].text)
            clustered = cluster_many(texts, questions=questions, clusterer=compares)
            for place, own_texts, own_labels in zip(together, texts, clustered, strict=True):
                labels[place] = _number_by_text(own_texts, own_labels)
            COUNT.get()(len(together))

    return labels


def _parts(batch: Sequence[SampledQuestion], places: Iterable[int]) -> Iterator[list[int]]:
    """Yields the places of questions that are clustered together: enough for a model's batch, and few for who waits."""
    together: list[int] = []
    n_texts = 0
    for place in places:
        together.append(place)
        n_texts += len({response_text(response) for response in batch[place].responses})
        if n_texts >= _TEXTS:
            yield together
            together = []
            n_texts = 0
    if together:
        yield together


def _fill_answers(question: SampledQuestion, answer_of: Callable[[str], str]) -> SampledQuestion:
    """Returns the question with what is compared of each response as its answer; see `compared_answer`."""
    is_proposed = has_proposals(question.responses)
    filled: list[Any] = []
    for response in question.responses:
        if is_proposed:
            filled.append({**response, "answer": compared_answer(response)})
        elif response["answer"] is None:
            filled.append({**response, "answer": answer_of(response["text"])})
        else:
            filled.append(response)
    return replace(question, responses=tuple(filled))


def _number_by_text(texts: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Numbers the clusters in the order of their texts: the order of the responses changes nothing."""
    texts_of: dict[int, set[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        texts_of.setdefault(label, set()).add(text)

    ranked = sorted(texts_of, key=lambda label: sorted(texts_of[label]))
    number_of = {label: number for number, label in enumerate(ranked)}
    return [number_of[label] for label in labels]


def _with_distances(
    batch: Sequence[Statistics], entailment: EntailmentModel
) -> Iterator[Statistics]:
    """Yields the statistics with `coe_wasserstein` over a ground metric between the clusters.

    It is 1 - the mean of both directions' probability of entailment between their most probable responses. All pairs go
    to the model in one request.
    """
    pairs: list[tuple[str, str]] = []
    for statistics in batch:
        answers = []
        for cluster in range(len(statistics.support)):
            answer = f"{statistics.question.text} {statistics.answer_of(cluster)}"
            answers.append(" ".join(answer.split()))
        pairs += permutations(answers, 2)

    probabilities = []
    if pairs:
        predicted = np.asarray(entailment.predict(pairs))
        probabilities = predicted[:, ENTAILMENT].tolist()
    remaining = iter(probabilities)

    for statistics in batch:
        # row by row, as `permutations` orders the pairs; each cluster entails itself
        entailed = np.eye(len(statistics.support))
        off_diagonal = entailed == 0.0
        n_pairs = int(off_diagonal.sum())
        entailed[off_diagonal] = list(islice(remaining, n_pairs))

        both_ways = (entailed + entailed.T) / 2.0
        metric = 1.0 - both_ways
        coe = collaborative_entropy(
            statistics.distributions, divergence="wasserstein", ground_metric=metric
        )
        figures = {**statistics.figures, "coe_wasserstein": float(coe.total)}
        yield replace(statistics, figures=figures)
