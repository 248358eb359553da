"""Owns the entry points: responses in, labels out, with refusals and empty responses in clusters of their own.

A greedy clusterer's result depends on the order of the responses, and theirs on the agents' names. So the clusterer is
given each question's answers in an order of their own: the most frequent first, then the shortest, then by text. The
commonest wording represents its cluster, so that the first comparisons settle most answers, and a short wording says
little that a paraphrase might lack. Equal texts share a cluster.
"""

import operator
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

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
    instance(
        question,
        str,
        '"question"',
        what="a string",
        advice='For several questions, call "cluster_many"',
    )
    return cluster_many(
        [check_strings(responses, name='"responses"')], questions=[question], clusterer=clusterer
    )[0]


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
    batch, asked = check_batch(responses, questions)
    return _cluster_batch(batch, [[] for _ in batch], asked, clusterer)


def cluster_with_former(
    responses: Sequence[str], former: Sequence[str], *, question: str, clusterer: Clusterer
) -> tuple[list[int], list[int]]:
    """Clusters as `cluster_responses`, and finds the clusters of texts of a former round among those of the responses.

    The former texts are placed last, so that they represent no cluster that a response could join.
    """
    batch, asked = check_batch([responses], [question])
    labels = _cluster_batch(batch, [list(former)], asked, clusterer)[0]
    return labels[: len(responses)], labels[len(responses) :]


def _cluster_batch(
    batch: Sequence[Sequence[str]],
    last: Sequence[Sequence[str]],
    questions: Sequence[str],
    clusterer: Clusterer,
) -> list[list[int]]:
    """Returns the labels of each question's texts and then of those placed last."""
    kinds = [
        {text: answer_kind(text) for text in {*texts, *more}}
        for texts, more in zip(batch, last, strict=True)
    ]
    answers = [
        [text for text in [*_in_own_order(texts), *more] if kind[text] == "answer"]
        for texts, more, kind in zip(batch, last, kinds, strict=True)
    ]
    answered = [i for i, texts in enumerate(answers) if texts]
    found: dict[int, dict[str, int]] = {}
    if answered:
        expected = [answers[i] for i in answered]
        returned = clusterer.cluster(expected, [questions[i] for i in answered])
        for i, labels in zip(answered, _check_labels(returned, expected, clusterer), strict=True):
            # reversed, so that the first of equal texts decides
            found[i] = dict(zip(reversed(answers[i]), reversed(labels), strict=True))
    return [
        by_first_appearance(
            found[i][text] if kind[text] == "answer" else kind[text] for text in [*texts, *more]
        )
        for i, (texts, more, kind) in enumerate(zip(batch, last, kinds, strict=True))
    ]


def _in_own_order(texts: Sequence[str]) -> list[str]:
    counts = Counter(texts)
    ordered = sorted((-count, len(text), text) for text, count in counts.items())
    return [text for count, _, text in ordered for _ in range(-count)]


def _check_labels(
    returned: Any, answers: Sequence[Sequence[str]], clusterer: Clusterer
) -> list[list[int]]:
    name = type(clusterer).__name__
    try:
        labels = [[operator.index(label) for label in row] for row in returned]
    except TypeError as error:
        raise ValueError(
            f'"cluster" must return one list of integers per question; {name} returned something else ({error}). '
            "Return list[list[int]]"
        ) from error
    for place, (texts, row) in enumerate(zip_longest(answers, labels)):
        wanted, found = ("no list" if each is None else len(each) for each in (texts, row))
        if wanted != found:
            raise ValueError(
                f'"cluster" must return one label per response; for question {place}, {name} returned {found} '
                f"where {wanted} belongs. Return one list per question, as long as its responses"
            )
    return labels
