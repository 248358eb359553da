"""Owns what models said of saved texts, kept in the folder of a run, so that no model is loaded for it again.

The file holds numbers under hashes: no text, and nothing that is run. Whoever may write to the folder may change a
verdict by it, as by the samples themselves.
"""

import hashlib
import json
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering import EntailmentModel
from coe_agents.clustering.protocols import check_probabilities
from coe_agents.evaluation.samples.store import SETTINGS
from coe_agents.evaluation.scoring.correctness import Criterion, Prediction

KEPT = "run.kept.sqlite"
"""The file, in the folder of a run. Nothing is written beside other samples, where nobody expects it."""
_TABLE = "CREATE TABLE kept (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
_Rows = NDArray[np.float64]
_Result = TypeVar("_Result")


def path_of_kept(samples: Sequence[Path]) -> Path | None:
    """Returns the file in the folder of the run that the first of the samples is of; None if it is of none."""
    if not samples:
        return None
    folder = samples[0] if samples[0].is_dir() else samples[0].parent
    path = folder / KEPT
    return path if (folder / SETTINGS).is_file() and not path.is_symlink() else None


@dataclass(frozen=True, slots=True)
class Kept:
    """What one model said, in a file of SQLite.

    A file that is damaged, or that another program wrote, is replaced, with a warning. Where a file cannot be written,
    or is locked, nothing is kept.

    Attributes:
        model: All that its numbers depend on, as JSON has it.
    """

    path: Path
    model: Any

    def recall(
        self,
        items: Sequence[Any],
        ask: Callable[[list[Any]], Any],
        check: Callable[[_Rows], object] = np.shape,
    ) -> _Rows:
        """Returns a row of numbers for each item, which is JSON; `ask` is called with those that are not kept.

        `check` raises a ValueError for kept rows that the model cannot have given. A row with NaN is not kept.
        """
        of_model = hashlib.sha256(json.dumps(self.model).encode())
        keys = []
        for item in items:
            key = of_model.copy()
            key.update(json.dumps(item).encode())
            keys.append(key.digest())

        kept: dict[bytes, _Rows] = self._use(lambda database: _read(database, keys), {})
        try:
            rows = np.array(list(kept.values()))
            check(rows)
            if not np.isfinite(rows).all():
                kept = {}
        except ValueError:
            kept = {}

        missing = {key: item for key, item in zip(keys, items, strict=True) if key not in kept}
        if missing:
            rows = np.asarray(ask(list(missing.values())), dtype=np.float64)
            new = dict(zip(missing, rows, strict=True))
            self._use(lambda database: _write(database, new), None)
            kept |= new
        return np.array([kept[key] for key in keys])

    def _use(self, work: Callable[[sqlite3.Connection], _Result], otherwise: _Result) -> _Result:
        """Returns what `work` returns of the open file, which is committed; `otherwise` where that is not possible."""
        try:
            with closing(sqlite3.connect(self.path)) as database, database:
                tables = [sql for (sql,) in database.execute("SELECT sql FROM sqlite_master")]
                if not tables:
                    database.execute(_TABLE)
                elif tables != [_TABLE]:
                    raise sqlite3.DatabaseError("another program wrote it")
                return work(database)
        except sqlite3.OperationalError:
            return otherwise
        except sqlite3.DatabaseError as error:
            warnings.warn(f"{self.path} is written anew: {error}", stacklevel=2)
            self.path.unlink(missing_ok=True)
            return otherwise


def _read(database: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, _Rows]:
    kept = {}
    for key in keys:
        found = database.execute("SELECT value FROM kept WHERE key = ?", [key]).fetchone()
        if found is not None and isinstance(found[0], bytes) and len(found[0]) % 8 == 0:
            kept[key] = np.frombuffer(found[0], "<f8")
    return kept


def _write(database: sqlite3.Connection, rows: Mapping[bytes, _Rows]) -> None:
    finite = [
        (key, row.astype("<f8").tobytes()) for key, row in rows.items() if np.isfinite(row).all()
    ]
    database.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", finite)


@dataclass(frozen=True)
class KeptEntailment:
    """An entailment model that is created for the first pair of which nothing is kept."""

    create: Callable[[], EntailmentModel]
    kept: Kept

    def predict(self, pairs: Sequence[tuple[str, str]]) -> _Rows:
        return self.kept.recall(pairs, lambda new: self.create().predict(new), self._check)

    def _check(self, rows: _Rows) -> None:
        check_probabilities(rows, n_pairs=len(rows), model=self)


@dataclass(frozen=True)
class KeptEmbeddings:
    """Embeddings that are created for the first text of which nothing is kept."""

    create: Callable[[], Any]
    kept: Kept

    def embed_documents(self, texts: Sequence[str]) -> _Rows:
        return self.kept.recall(texts, lambda new: self.create().embed_documents(new))


@dataclass(frozen=True)
class KeptVerdicts:
    """A criterion that is asked about predictions of which no verdict is kept."""

    criterion: Criterion
    kept: Kept

    @property
    def name(self) -> str:
        return self.criterion.name

    def judge(self, predictions: Sequence[Prediction]) -> list[float | None]:
        rows = self.kept.recall(list(map(astuple, predictions)), self._ask, self._check)
        return [None if np.isnan(verdict) else float(verdict) for (verdict,) in rows]

    def _ask(self, new: Sequence[tuple[Any, ...]]) -> list[list[float]]:
        verdicts = self.criterion.judge([Prediction(*each) for each in new])
        return [[np.nan if verdict is None else float(verdict)] for verdict in verdicts]

    def _check(self, rows: _Rows) -> None:
        if rows.shape[1:] != (1,) or rows.min() < 0.0 or rows.max() > 1.0:
            raise ValueError
