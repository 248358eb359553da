"""Owns what is kept of the models that compared or judged saved responses, so that none is loaded for it again.

These are probabilities, vectors and verdicts, in a file in the folder of the run: numbers under hashes, no text, and
nothing that is run. Whoever may write to the folder may change a verdict by the file, as by the samples themselves.
"""

import json
import sqlite3
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering.unjudged import note_unjudged
from coe_agents.evaluation.samples.store import SETTINGS, folder_of
from coe_agents.evaluation.scoring.correctness import Prediction

KEPT = "run.kept.sqlite"
_Rows = NDArray[np.float64]
_DIGEST = 32


def path_of_kept(samples: Sequence[Path]) -> Path | None:
    """Returns the file in the folder of the run whose samples come first; None if the first samples are of no run.

    Nothing is written beside other samples, where nobody expects a file, or where a link leads.
    """
    if not samples:
        return None
    folder = folder_of(samples[0])
    is_of_run = (folder / SETTINGS).is_file()
    kept = folder / KEPT
    if not is_of_run or kept.is_symlink():
        return None
    return kept


@dataclass(frozen=True)
class Kept:
    """A model that entails, embeds or judges, and is created, and asked, only for the numbers that its file lacks.

    A file that is damaged is replaced, with a warning; a value that is damaged is asked for again. Where no file can
    be written, or it is locked, nothing is kept.

    Attributes:
        path: A file of SQLite, which several models share.
        identity: All that the model's numbers depend on, as JSON has it.
        create: Returns the model.
        name: Of a criterion.
    """

    path: Path
    identity: Any
    create: Callable[[], Any]
    name: str = ""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> _Rows:
        """Returns the probabilities of each pair; see `EntailmentModel`. A pair that had no verdict is not kept."""
        with note_unjudged() as noted:
            return self._recall(
                pairs, lambda new: self.create().predict(new), unjudged=noted.unjudged
            )

    def embed_documents(self, texts: Sequence[str]) -> _Rows:
        """Returns the vector of each text."""
        return self._recall(texts, lambda new: self.create().embed_documents(new))

    def judge(self, predictions: Sequence[Prediction]) -> list[float | None]:
        """Returns the verdict on each prediction; see `Criterion`. A verdict that is not known is not kept."""

        def ask(new: Sequence[Prediction]) -> list[list[float | None]]:
            return [[verdict] for verdict in self.create().judge(new)]

        rows = self._recall(predictions, ask)
        return [None if np.isnan(verdict) else float(verdict) for (verdict,) in rows]

    def _recall(
        self,
        items: Sequence[Any],
        ask: Callable[[list[Any]], Any],
        *,
        unjudged: Collection[Any] = (),
    ) -> _Rows:
        """Returns a row of numbers for each item; None is NaN. Those of what `ask` adds to `unjudged` are not kept."""
        keys = []
        for item in items:
            text = json.dumps([self.identity, item], default=astuple)
            keys.append(sha256(text.encode()).digest())

        row_of: dict[bytes, _Rows] = {}
        try:
            row_of = self._read(keys)
        except sqlite3.OperationalError:
            # such as a file that is locked
            pass
        except sqlite3.DatabaseError as error:
            warnings.warn(f"{self.path} is written anew: {error}", stacklevel=2)
            self.path.unlink()

        # equal items are asked for once
        new_items = {}
        for key, item in zip(keys, items, strict=True):
            if key not in row_of:
                new_items[key] = item
        if new_items:
            rows = np.asarray(ask(list(new_items.values())), dtype=np.float64)
            new_rows = dict(zip(new_items, rows, strict=True))
            to_keep = {}
            for key, row in new_rows.items():
                if new_items[key] not in unjudged:
                    to_keep[key] = row
            with suppress(sqlite3.Error):
                self._write(to_keep)
            row_of |= new_rows
        return np.array([row_of[key] for key in keys])

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, _Rows]:
        row_of: dict[bytes, _Rows] = {}
        if not self.path.exists():
            return row_of
        with closing(sqlite3.connect(self.path)) as database:
            for key in keys:
                found = database.execute("SELECT value FROM kept WHERE key = ?", [key])
                for (value,) in found:
                    # a file that is damaged may hold a text or a number there
                    if not isinstance(value, bytes):
                        continue
                    content = value[:-_DIGEST]
                    if value == _with_digest(key, content):
                        row_of[key] = np.frombuffer(content)
        return row_of

    def _write(self, row_of: Mapping[bytes, _Rows]) -> None:
        values = []
        for key, row in row_of.items():
            if np.isfinite(row).all():
                values.append((key, _with_digest(key, row.tobytes())))
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, value BLOB)")
            database.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", values)


def _with_digest(key: bytes, content: bytes) -> bytes:
    """Returns what is stored under a key, so that damage is noticed."""
    return content + sha256(key + content).digest()
