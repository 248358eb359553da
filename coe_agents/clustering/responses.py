"""Owns what the rest of the package calls of clustering: responses in, labels out.

Refusals and empty responses have clusters of their own; a clusterer is given the answers alone.

A greedy clusterer's result depends on the order of the responses, and that order on the agents' names. So the
clusterer is given each question's answers in an order of their own: the most frequent first, then the shortest, then by
text. The commonest wording represents its cluster, so that the first comparisons settle most answers, and a short
wording says little that a paraphrase might lack. Equal texts share a cluster.
"""

import operator
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from coe_agents.activity import announce
from coe_agents.checks import instance
from coe_agents.clustering.protocols import (
    Clusterer,
    by_first_appearance,
    check_batch,
    check_strings,
)
from coe_agents.clustering.refusals import answer_kind


def cluster_responses(
    responses: Sequence[str], *, question: str, clusterer: Clusterer
) -> list[int]:
    """Clusters the responses to one question by meaning.

    Args:
        responses: The responses of all agents. Their order changes only the numbers of the clusters.
        question: What was asked; "" where it has no text.
        clusterer: Decides which answers mean the same.

    Returns:
        One label per response, 0..n_clusters-1 by first appearance. Equal responses share a cluster. All refusals share
        one and all empty responses another; the clusterer is not asked about them. No responses give no labels.

    Raises:
        TypeError: If `responses` is not a sequence of strings, or `question` no string.
        ValueError: If the clusterer does not return one integer per answer.

    Example:
        >>> from coe_agents.clustering import NormalizedMatch
        >>> texts = ["Paris", "I don't know.", "paris!", "", "I cannot answer that."]
        >>> cluster_responses(texts, question="What is the capital of France?", clusterer=NormalizedMatch())
        [0, 1, 0, 2, 1]
    """
    advice = 'For several questions, call "cluster_many"'
    instance(question, str, '"question"', what="a string", advice=advice)
    texts = check_strings(responses, name='"responses"')
    [labels] = cluster_many([texts], questions=[question], clusterer=clusterer)
    return labels


def cluster_many(
    responses: Sequence[Sequence[str]], *, questions: Sequence[str], clusterer: Clusterer
) -> list[list[int]]:
    """Clusters the responses to many questions in one call of the clusterer, so that it can join its requests.

    Returns:
        One list of labels per question: what `cluster_responses` returns for it alone.

    Raises:
        TypeError: If something other than strings is given.
        ValueError: If the lengths differ, or the clusterer does not return one integer per answer.

    Example:
        >>> from coe_agents.clustering import NormalizedMatch
        >>> questions = ["How many legs has a spider?", "Who wrote Emma?"]
        >>> cluster_many([["8", "eight", "6"], []], questions=questions, clusterer=NormalizedMatch())
        [[0, 0, 1], []]
    """
    batch, question_texts = check_batch(responses, questions)
    return _cluster_batch(batch, [[] for _ in batch], question_texts, clusterer)


def cluster_with_former(
    responses: Sequence[str], former: Sequence[str], *, question: str, clusterer: Clusterer
) -> tuple[list[int], list[int]]:
    """Clusters as `cluster_responses`, and finds the cluster of each text of a former round among these clusters.

    The former texts are placed last, so that they represent no cluster that a response could join.
    """
    batch, question_texts = check_batch([responses], [question])
    [labels] = _cluster_batch(batch, [list(former)], question_texts, clusterer)
    return labels[: len(responses)], labels[len(responses) :]


def _cluster_batch(
    batch: Sequence[Sequence[str]],
    last: Sequence[Sequence[str]],
    questions: Sequence[str],
    clusterer: Clusterer,
) -> list[list[int]]:
    """Returns the labels of each question's texts, and then of the texts placed last."""
    # of each question, the cluster of each text: its kind, until the answers have a label
    clusters = list[dict[str, Any]]()
    answers = list[list[str]]()
    for texts, last_texts in zip(batch, last, strict=True):
        in_order = [*_in_own_order(texts), *last_texts]
        cluster_of: dict[str, Any] = {text: answer_kind(text) for text in set(in_order)}
        clusters.append(cluster_of)
        answers.append([text for text in in_order if cluster_of[text] == "answer"])

    places = [place for place, texts in enumerate(answers) if texts]
    if places:
        to_cluster = [answers[place] for place in places]
        with announce("comparing the answers"):
            returned = clusterer.cluster(to_cluster, [questions[place] for place in places])
        rows = _check_labels(returned, to_cluster, clusterer)
        for place, labels in zip(places, rows, strict=True):
            # reversed, so that the first of equal texts decides
            labelled = zip(reversed(answers[place]), reversed(labels), strict=True)
            clusters[place].update(labelled)

    numbered = []
    for texts, last_texts, cluster_of in zip(batch, last, clusters, strict=True):
        numbered.append(by_first_appearance(cluster_of[text] for text in [*texts, *last_texts]))
    return numbered


def _in_own_order(texts: Sequence[str]) -> list[str]:
    counts = Counter(texts)
    return sorted(texts, key=lambda text: (-counts[text], len(text), text))


def _check_labels(
    returned: Any, answers: Sequence[Sequence[str]], clusterer: Clusterer
) -> list[list[int]]:
    name = type(clusterer).__name__
    try:
        labels = [list(map(operator.index, row)) for row in returned]
    except TypeError as error:
        raise ValueError(
            f'"cluster" must return one list of integers per question; {name} returned something else ({error}). '
            "Return list[list[int]]"
        ) from error
    for place, (texts, row) in enumerate(zip_longest(answers, labels)):
        n_texts = "no list" if texts is None else len(texts)
        n_labels = "no list" if row is None else len(row)
        if n_texts != n_labels:
            raise ValueError(
                f'"cluster" must return one label per response; for question {place}, {name} returned {n_labels} '
                f"where {n_texts} belongs. Return one list per question, as long as its responses"
            )
    return labels
