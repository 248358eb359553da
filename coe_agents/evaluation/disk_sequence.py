"""Owns sequences that stay on the disk, however long they are, and the scratch file of a process."""

import sqlite3
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")
_BATCH = 256


class DiskSequence(Generic[T]):
    """Values in the order of their keys, in a temporary file that ends with the object; equal keys are one value.

    The file is one of `open_scratch`; while it is written it takes about three times the size of the values. Memory
    holds a cache of a few MB, and nothing for each value.

    `values` are read once and sorted by `key`; `encode` returns a value as text, and `decode` a text as the value;
    `merge` returns one value for those of the same key, in the order in which they were read, and may raise.

    Example:
        >>> numbers = DiskSequence([3, 1, 2, 3], key=lambda n: bytes([n]), encode=str, decode=int)
        >>> list(numbers), len(numbers), list(numbers.first(2)), numbers.place_of(bytes([3]))
        ([1, 2, 3], 3, [1, 2], 2)
    """

    def __init__(
        self,
        values: Iterable[T],
        *,
        key: Callable[[T], bytes],
        encode: Callable[[T], str],
        decode: Callable[[str], T],
        merge: Callable[[Sequence[T]], T] = itemgetter(0),
    ) -> None:
        self._decode = decode
        self._whole: DiskSequence[T] | None = None
        self._file = open_scratch()
        self._end = weakref.finalize(self, self._file.close)
        self._file.execute("CREATE TABLE read (key BLOB, text TEXT)")
        self._file.execute("BEGIN")
        self._file.executemany(
            "INSERT INTO read VALUES (?, ?)", ((key(value), encode(value)) for value in values)
        )

        def sorted_rows() -> Iterator[tuple[bytes, str]]:
            found = self._file.execute("SELECT key, text FROM read ORDER BY key, rowid")
            for place, group in groupby(found, key=itemgetter(0)):
                texts = [text for _, text in group]
                yield place, encode(merge(list(map(decode, texts)))) if len(texts) > 1 else texts[0]

        self._file.execute("CREATE TABLE kept (place INTEGER PRIMARY KEY, key BLOB, text TEXT)")
        self._file.executemany("INSERT INTO kept (key, text) VALUES (?, ?)", sorted_rows())
        self._file.execute("DROP TABLE read")
        self._file.execute("COMMIT")
        self._n: int
        (self._n,) = self._file.execute("SELECT COUNT(*) FROM kept").fetchone()

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        for start in range(0, self._n, _BATCH):
            stop = min(start + _BATCH, self._n)
            found = self._file.execute(
                "SELECT text FROM kept WHERE place > ? AND place <= ?", (start, stop)
            ).fetchall()
            yield from (self._decode(text) for (text,) in found)

    def first(self, n: int | None) -> "DiskSequence[T]":
        if n is None or n >= self._n:
            return self
        part = copy(self)
        part._n, part._whole = n, self  # the file ends with the whole
        return part

    def place_of(self, key: bytes) -> int | None:
        place = bisect_left(range(self._n), key, key=self._key_at)
        return place if place < self._n and self._key_at(place) == key else None

    def _key_at(self, place: int) -> bytes:
        (key,) = self._file.execute("SELECT key FROM kept WHERE place = ?", (place + 1,)).fetchone()
        return bytes(key)


def open_scratch() -> sqlite3.Connection:
    """Returns a database in a file that is gone when it is closed; memory holds a cache of at most 8 MB.

    The file is where SQLite puts such files: in SQLITE_TMPDIR, else TMPDIR, else /var/tmp or /tmp.
    """
    found = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # nobody reads it after a crash
    for setting in (
        "journal_mode = OFF",
        "synchronous = OFF",
        "temp_store = FILE",
        "cache_size = -8192",
    ):
        found.execute(f"PRAGMA {setting}")
    return found
