"""Owns wrappers of an entailment model: one remembers its verdicts, so that no pair is asked twice; one counts them."""

import hashlib
import json
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.checks import integer
from coe_agents.clustering.protocols import ENTAILMENT_LABELS, EntailmentModel, check_probabilities
from coe_agents.clustering.unjudged import note_unjudged


class CachedEntailment:
    """An entailment model that asks `model` only for pairs that it does not know; safe to share between threads.

    Use it if the same responses are clustered again: in a second round, or with another threshold. Beyond `max_pairs`,
    the oldest pairs are deleted. Texts are kept as hashes only. A pair on which a judge gave no verdict is not kept.

    Args:
        model: Judges the pairs that are new.
        max_pairs: The most pairs to remember.

    Raises:
        ValueError: If `max_pairs` is below 1.

    Example:
        >>> from coe_agents.clustering.entailment_wrappers import CountingEntailment
        >>> from coe_agents.testing.doubles import TableEntailment
        >>> counting = CountingEntailment(TableEntailment({}, default="neutral"))
        >>> model = CachedEntailment(counting)
        >>> for _ in range(2):
        ...     rows = model.predict([("It rains.", "It is wet."), ("It rains.", "It is wet.")])
        >>> counting.n_pairs
        1
    """

    def __init__(self, model: EntailmentModel, *, max_pairs: int = 100_000) -> None:
        self.model = model
        self.max_pairs = integer(max_pairs, '"max_pairs"', least=1, advice="Omit it for 100,000")
        self._rows: dict[bytes, NDArray[np.float64]] = {}
        self._lock = threading.Lock()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Returns the rows of the wrapped model, shape `(n_pairs, 3)`; those it gave before where it did.

        Raises:
            ValueError: If the wrapped model does not return one distribution per pair; nothing is kept then.
        """
        keys = []
        for pair in pairs:
            written = json.dumps(list(pair))
            keys.append(hashlib.sha256(written.encode()).digest())
        with self._lock:
            known = {key: self._rows[key] for key in keys if key in self._rows}

        unknown = {}
        remembered = set()
        for key, pair in zip(keys, pairs, strict=True):
            if key in known:
                remembered.add(pair)
            else:
                unknown[key] = pair
        with note_unjudged() as noted:
            noted.judged |= remembered
            if unknown:
                returned = self.model.predict(list(unknown.values()))
                rows = check_probabilities(returned, n_pairs=len(unknown), model=self.model)
                judged = dict(zip(unknown, rows, strict=True))
                known |= judged
                for key, pair in unknown.items():
                    if pair in noted.unjudged:
                        del judged[key]
                self._keep(judged)

        # without a pair the shape is not known otherwise
        shape = (len(keys), len(ENTAILMENT_LABELS))
        return np.array([known[key] for key in keys]).reshape(shape)

    def _keep(self, judged: dict[bytes, NDArray[np.float64]]) -> None:
        with self._lock:
            self._rows |= judged
            n_over = max(0, len(self._rows) - self.max_pairs)
            for oldest in list(islice(self._rows, n_over)):
                del self._rows[oldest]


class CountingEntailment:
    """An entailment model that passes every request on to `model` and counts it; safe to share between threads."""

    def __init__(self, model: EntailmentModel) -> None:
        self.model = model
        self.n_pairs = 0
        self._lock = threading.Lock()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Returns what the wrapped model returns; a request that fails is counted too."""
        with self._lock:
            self.n_pairs += len(pairs)
        return self.model.predict(pairs)
