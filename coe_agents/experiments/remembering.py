"""Owns the memory of entailment judgements: many experiments compare the same responses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering import EntailmentModel


class RememberingEntailment:
    """An entailment model that puts each pair to `model` once; for one thread.

    Example:
        >>> import numpy as np
        >>> from coe_agents.clustering import CountingEntailment
        >>> class Yes:
        ...     def predict(self, pairs):
        ...         return np.tile([0.0, 0.0, 1.0], (len(pairs), 1))
        >>> counting = CountingEntailment(Yes())
        >>> model = RememberingEntailment(counting)
        >>> model.predict([("a", "b"), ("a", "b")]).shape, model.predict([("a", "b")]).shape, counting.n_pairs
        ((2, 3), (1, 3), 1)
    """

    def __init__(self, model: EntailmentModel) -> None:
        self.model = model
        self._rows: dict[tuple[str, str], NDArray[np.floating[Any]]] = {}

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Returns what the wrapped model returns."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._rows]
        if new:
            self._rows.update(zip(new, self.model.predict(new), strict=True))
        return np.stack([self._rows[pair] for pair in pairs])
