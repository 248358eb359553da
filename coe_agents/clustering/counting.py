"""Owns the tally of entailment work, so that a report can name the pairs actually asked."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering.protocols import EntailmentModel


class CountingEntailment:
    """An entailment model that passes every request on to `model` and counts it; safe to share between threads.

    Attributes:
        n_pairs: The pairs asked so far.
        n_calls: The calls of `predict` so far.

    Example:
        >>> import numpy as np
        >>> class Yes:
        ...     def predict(self, pairs):
        ...         return np.tile([0.0, 0.0, 1.0], (len(pairs), 1))
        >>> model = CountingEntailment(Yes())
        >>> _ = model.predict([("A cat sleeps.", "An animal sleeps."), ("It rains.", "It is wet.")])
        >>> model.n_pairs, model.n_calls
        (2, 1)
    """

    def __init__(self, model: EntailmentModel) -> None:
        self.model = model
        self.n_pairs = 0
        self.n_calls = 0
        self._lock = threading.Lock()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Returns what the wrapped model returns; a request that fails is counted too."""
        with self._lock:
            self.n_pairs += len(pairs)
            self.n_calls += 1
        return self.model.predict(pairs)
