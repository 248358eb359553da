"""Owns the statistics of saved questions: their responses, clustered in batches, and measured together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, permutations
from typing import Any

import numpy as np

from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import compared_answer, has_proposals
from coe_agents.clustering import Clusterer, EntailmentModel, cluster_many
from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.clustering.refusals import response_text
from coe_agents.measurement.statistics import Statistics, compute_statistics
from coe_agents.measurement.weighting import Weighting
from coe_agents.types import SampledQuestion
from coe_agents.uncertainty import collaborative_entropy

BATCH = 64
"""Questions that go to the clusterer together, and then to the criterion of correctness."""


def iter_statistics(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    entailment: EntailmentModel | None = None,
    proposer: str | None = None,
    weights: Mapping[str, float] | None = None,
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
    for first in waiting:
        answer_of = cache(canonical_answer)  # many texts are equal
        batch = [
            _fill_answers(question, answer_of)
            for question in chain([first], islice(waiting, BATCH - 1))
            if any(weight_of.get(response["agent"], 1.0) > 0.0 for response in question.responses)
        ]
        texts = [[response_text(response) for response in question.responses] for question in batch]
        found = _cluster(batch, texts, clusterer)
        labels = [
            _number_by_text(texts_of_one, own)
            for texts_of_one, own in zip(texts, found, strict=True)
        ]
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, question in enumerate(batch):
            alike.setdefault(
                tuple(response["agent"] for response in question.responses), []
            ).append(place)
        ready: dict[int, Statistics] = {}
        for places in alike.values():
            chosen, own_labels = (
                [batch[place] for place in places],
                [labels[place] for place in places],
            )
            measured = compute_statistics(chosen, own_labels, weighting, proposer, weight_of)
            ready.update(zip(places, measured, strict=True))
        statistics = [ready[place] for place in range(len(batch))]
        yield from statistics if entailment is None else _with_distances(statistics, entailment)


def _cluster(
    batch: Sequence[SampledQuestion], texts: Sequence[Sequence[str]], clusterer: Clusterer
) -> list[list[int]]:
    """Returns the labels of the texts of each question's responses; tool calls are compared as actions."""
    labels: list[list[int]] = [[] for _ in batch]
    are_proposed = [has_proposals(question.responses) for question in batch]
    for is_proposed, own in ((False, clusterer), (True, compare_actions(clusterer))):
        places = [place for place, of_calls in enumerate(are_proposed) if of_calls is is_proposed]
        asked = [batch[place].text for place in places]
        found = cluster_many([texts[place] for place in places], questions=asked, clusterer=own)
        for place, one in zip(places, found, strict=True):
            labels[place] = one
    return labels


def _fill_answers(question: SampledQuestion, answer_of: Callable[[str], str]) -> SampledQuestion:
    """Returns the question with what is compared of each response as its answer; see `compared_answer`."""
    given, filled = question.responses, list[Any]()
    if has_proposals(given):
        filled = [{**each, "answer": compared_answer(each)} for each in given]
    else:
        filled = [
            each if each["answer"] is not None else each | {"answer": answer_of(each["text"])}
            for each in given
        ]
    return replace(question, responses=tuple(filled))


def _number_by_text(texts: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Numbers the clusters in the order of their texts: the order of the responses changes nothing."""
    inside: dict[int, set[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        inside.setdefault(label, set()).add(text)
    ranked = sorted(inside, key=lambda label: sorted(inside[label]))
    numbers = {label: number for number, label in enumerate(ranked)}
    return [numbers[label] for label in labels]


def _with_distances(
    batch: Sequence[Statistics], entailment: EntailmentModel
) -> Iterator[Statistics]:
    """Yields the statistics with `coe_wasserstein` over a ground metric between the clusters.

    It is 1 - the mean of both directions' probability of entailment between their most probable responses. All pairs go
    to the model in one request.
    """
    pairs: list[tuple[str, str]] = []
    for each in batch:
        answers = [each.answer_of(cluster) for cluster in range(len(each.support))]
        pairs += permutations(
            [" ".join(f"{each.question.text} {answer}".split()) for answer in answers], 2
        )
    entailed = iter(np.asarray(entailment.predict(pairs))[:, ENTAILMENT].tolist() if pairs else ())
    for each in batch:
        matrix = np.eye(len(each.support))
        off_diagonal = matrix == 0.0
        matrix[off_diagonal] = [next(entailed) for _ in range(off_diagonal.sum())]
        metric = 1.0 - (matrix + matrix.T) / 2.0
        found = collaborative_entropy(
            each.distributions, divergence="wasserstein", ground_metric=metric
        ).total
        yield replace(each, figures={**each.figures, "coe_wasserstein": float(found)})
