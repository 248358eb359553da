"""Owns the two edges of clustering: what judges entailment, and what turns responses into clusters."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

ENTAILMENT_LABELS = ("contradiction", "neutral", "entailment")
"""The order of the columns that every `EntailmentModel` returns."""

CONTRADICTION, NEUTRAL, ENTAILMENT = range(3)


@runtime_checkable
class EntailmentModel(Protocol):
    """Judges whether a premise entails a hypothesis."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Returns one row per (premise, hypothesis) pair: its probabilities in the order of `ENTAILMENT_LABELS`.

        The shape is `(n_pairs, 3)` and each row sums to 1. It is never called without pairs.
        """
        ...


@runtime_checkable
class Clusterer(Protocol):
    """Groups the responses to each question by meaning."""

    def cluster(self, responses: Sequence[Sequence[str]], questions: Sequence[str]) -> list[list[int]]:
        """Returns one list of labels per question, one label per response, 0..n_clusters-1 by first appearance."""
        ...
