"""Owns clustering by the similarity of embeddings: responses with near vectors share a cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents._removed import refuses_removed
from coe_agents.checks import has_method, number
from coe_agents.clustering.protocols import check_batch, to_rows
from coe_agents.text import one_line

_ROUNDING = 1e-6
"""How far the cosine of two equal vectors in single precision may fall below 1."""


class EmbeddingSimilarity:
    """A `Clusterer`: two responses mean the same where the cosine of their vectors reaches a threshold.

    Responses are taken in the order given. The first one without a cluster represents a new one; each later one joins
    the *first* cluster whose representative r it is near enough to: cos(v, r) = v . r / (|v| |r|) >= threshold.
    Responses that differ in white space only are one. All distinct texts of all questions go to the embeddings in one
    call; where a question has a single distinct response, there is nothing to compare, and it is omitted. The question
    is not embedded with them: what all texts of a question share draws their vectors together.

    So who shares a cluster depends on the order of the responses, and on which others there are: b may be near enough
    to a, and c to b, but not c to a. `cluster_responses`, by which graphs and scores cluster, passes them in an order
    of their own: the most frequent first, then the shortest.

    Near is not equal: "It sank in 1912." and "It sank in 1913.", "he did" and "he did not", or "It has seven moons."
    and "It has eight moons." are near neighbours in most embeddings. If they share a cluster, a reason says of all
    agents in it that they say its most probable text, which one of them may never have given. An entailment model
    distinguishes such answers; use this where you have none.

    Args:
        embeddings: Any LangChain `Embeddings`, or another object whose `embed_documents` returns a vector per text.
        threshold: The least cosine, in (0, 1]. It has no default, since embeddings differ too much: unrelated texts
            have a cosine of 0.1 in some and 0.7 in others. Choose it on answers that you know to be equal or not.

    Raises:
        TypeError: If `embeddings` has no `embed_documents`.
        ValueError: If `threshold` is not in (0, 1].

    Example:
        >>> class CountingLetters:
        ...     def embed_documents(self, texts):
        ...         return [[text.count(letter) for letter in "aeiou"] for text in texts]
        >>> clusterer = EmbeddingSimilarity(CountingLetters(), threshold=0.9)
        >>> clusterer.cluster([["Paris", "Rome", "paris!"]], ["What is the capital of France?"])
        [[0, 1, 0]]
    """

    @refuses_removed
    def __init__(self, embeddings: Any, *, threshold: float) -> None:
        advice = "Pass a LangChain Embeddings object"
        has_method(embeddings, "embed_documents", '"embeddings"', advice=advice)
        where = '"threshold", a cosine,'
        number(threshold, where, above=0, most=1, advice="0.9 is strict for most models")
        self.embeddings = embeddings
        self.threshold = threshold

    def cluster(
        self, responses: Sequence[Sequence[str]], questions: Sequence[str]
    ) -> list[list[int]]:
        """Returns the labels of each question's responses; see `Clusterer`.

        Raises:
            ValueError: Also if the embeddings do not give one vector per text, all of one length, finite and not zero.
        """
        batch, _ = check_batch(responses, questions)
        lines = [list(map(one_line, texts)) for texts in batch]
        # of a question with one distinct response there is nothing to compare
        compared = dict[str, None]()
        for texts in lines:
            if len(set(texts)) > 1:
                compared |= dict.fromkeys(texts)
        if not compared:
            return [[0] * len(texts) for texts in lines]
        directions = self._directions(list(compared))
        place_of = {text: place for place, text in enumerate(compared)}

        labels = []
        for texts in lines:
            distinct = dict.fromkeys(texts)
            label_of = dict.fromkeys(texts, 0)
            if len(distinct) > 1:
                places = [place_of[text] for text in distinct]
                clusters = _greedy(directions[places], self.threshold)
                label_of = dict(zip(distinct, clusters, strict=True))
            labels.append([label_of[text] for text in texts])
        return labels

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Returns the cosine of each pair of texts, in [-1, 1]: what the threshold is compared with."""
        cosines = list[float]()
        for pair in pairs:
            first, second = self._directions([one_line(text) for text in pair])
            cosines.append(float(first @ second))
        return cosines

    def _directions(self, texts: list[str]) -> NDArray[np.float64]:
        """Returns the texts' vectors at unit length, shape `(n_texts, n_dimensions)`."""
        embedded = self.embeddings.embed_documents(texts)
        vectors = _check_vectors(embedded, n_texts=len(texts), source=self.embeddings)
        # the largest component first: squares of very small or large ones would leave the range of doubles
        vectors = vectors / np.abs(vectors).max(axis=1, keepdims=True)
        unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def _greedy(directions: NDArray[np.float64], threshold: float) -> list[int]:
    """Returns the labels of unit vectors: the first without one represents a new cluster, which near ones join."""
    labels: NDArray[np.intp] = np.full(len(directions), -1)
    n_clusters = 0
    while (labels < 0).any():
        waiting = np.flatnonzero(labels < 0)
        representative = directions[waiting[0]]
        is_near = directions[waiting] @ representative >= threshold - _ROUNDING
        # whatever the rounding, it joins its own cluster
        is_near[0] = True
        labels[waiting[is_near]] = n_clusters
        n_clusters += 1
    return [int(label) for label in labels]


def _check_vectors(returned: Any, *, n_texts: int, source: object) -> NDArray[np.float64]:
    name = type(source).__name__
    where = f'"embed_documents" of {name}'
    vectors = to_rows(returned, n_texts, None, where=where, advice="Return list[list[float]]")
    faults = {
        "NaN or infinity": ~np.isfinite(vectors).all(axis=1),
        "only zeros": ~vectors.any(axis=1),
    }
    for what, is_wrong in faults.items():
        if is_wrong.any():
            place = int(np.argmax(is_wrong))
            raise ValueError(
                f"every vector must be finite and not 0; vector {place} of the {n_texts} from {name} "
                f"holds {what}. A text without words may be the cause: check what the model makes of it"
            )
    return vectors
