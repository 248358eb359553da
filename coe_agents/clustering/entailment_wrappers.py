"""Owns wrappers of an entailment model: one remembers its verdicts, so that no pair is asked twice; one counts them."""

import hashlib
import json
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.checks import integer
from coe_agents.clustering.protocols import ENTAILMENT_LABELS, EntailmentModel, check_probabilities


class CachedEntailment:
    """An entailment model that asks `model` only for pairs that it does not know; safe to share between threads.

    Use it if the same responses are clustered again: in a second round, with another threshold, or when a program is
    rerun. Beyond `max_pairs`, the oldest pairs are deleted. Texts are kept as hashes only.

    Args:
        model: Judges the pairs that are new.
        max_pairs: The most pairs to remember, in memory or in the file.
        path: An SQLite file that outlives the program and may be shared by several; by default all is in memory.
        name: With `path`: which model judges, its revision and precision included, so that the file never answers with
            another one's verdicts.

    Raises:
        ValueError: If `max_pairs` is below 1, or only one of `path` and `name` is given.

    Example:
        >>> from coe_agents.clustering import CountingEntailment
        >>> from coe_agents.testing import TableEntailment
        >>> counting = CountingEntailment(TableEntailment({}, default="neutral"))
        >>> model = CachedEntailment(counting)
        >>> for _ in range(2):
        ...     rows = model.predict([("It rains.", "It is wet."), ("It rains.", "It is wet.")])
        >>> counting.n_pairs
        1
    """

    def __init__(
        self,
        model: EntailmentModel,
        *,
        max_pairs: int = 100_000,
        path: str | Path | None = None,
        name: str | None = None,
    ) -> None:
        integer(max_pairs, '"max_pairs"', least=1, advice="Omit it for 100,000")
        if bool(path) != bool(name):
            raise ValueError(
                f'"path" and "name" must be given together; got {path!r} and {name!r}. '
                "Name the model whose verdicts the file holds"
            )
        self.model = model
        self.max_pairs = max_pairs
        self.name = name or ""
        self._lock = threading.Lock()
        import sqlite3  # here, since few programs need it

        self._rows = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=60)
        weakref.finalize(self, self._rows.close)
        with self._rows:
            self._rows.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (place INTEGER PRIMARY KEY AUTOINCREMENT, pair BLOB UNIQUE, "
                + ", ".join(f"{label} REAL NOT NULL" for label in ENTAILMENT_LABELS)
                + ")"
            )

    def predict(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Returns the rows of the wrapped model, shape `(n_pairs, 3)`; those it gave before where it did.

        Raises:
            ValueError: If the wrapped model does not return one distribution per pair; nothing is kept then.
        """
        keys = [self._key(pair) for pair in pairs]
        known = self._find(set(keys))
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known}
        if new:
            returned = self.model.predict(list(new.values()))
            rows = check_probabilities(returned, n_pairs=len(new), model=self.model)
            self._store(list(new), rows)
            known.update(zip(new, rows, strict=True))
        return np.array([known[key] for key in keys]).reshape(len(keys), len(ENTAILMENT_LABELS))

    def _key(self, pair: tuple[str, str]) -> bytes:
        return hashlib.sha256(json.dumps([self.name, *pair]).encode()).digest()

    def _find(self, keys: set[bytes]) -> dict[bytes, NDArray[np.float64]]:
        query = f"SELECT {', '.join(ENTAILMENT_LABELS)} FROM verdicts WHERE pair = ?"
        with self._lock:
            found = {key: self._rows.execute(query, (key,)).fetchone() for key in keys}
        return {key: np.array(row) for key, row in found.items() if row is not None}

    def _store(self, keys: list[bytes], rows: NDArray[np.float64]) -> None:
        with self._lock, self._rows:
            self._rows.executemany(
                f"INSERT OR IGNORE INTO verdicts (pair, {', '.join(ENTAILMENT_LABELS)}) VALUES (?, ?, ?, ?)",
                [(key, *row) for key, row in zip(keys, rows.tolist(), strict=True)],
            )
            self._rows.execute(
                "DELETE FROM verdicts WHERE place <= (SELECT max(place) FROM verdicts) - ?", (self.max_pairs,)
            )


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
