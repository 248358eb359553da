"""Owns the first look at lines of samples: which are faulty, and where those of each question are, sorted.

A file is looked at in ranges of lines, of which processes can take one each. A range does not know the numbers of its
lines in the file, so what is wrong with a line is only noted here; the reader says it.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.folder import open_scratch
from coe_agents.evaluation.samples.line import parse_line, to_sample

MOST_FAULTS = 20
"""Faulty lines after which no more are looked at."""
_SIZE = 2**22
"""Bytes of a range, but that it holds whole lines."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Whole lines of a file: its number, where its lines are, and from where to where."""

    number: int
    path: Path
    start: int
    end: int


class IndexedLines(NamedTuple):
    """What is known of the lines of a range; these count from 0.

    Attributes:
        runs: The id of each run of lines of one question, with the first line, where it starts, and how many it has.
        odd: The lines that are faulty or have a field that may be misspelt, and where each starts.
    """

    of: LineRange
    n_lines: int
    runs: list[tuple[str, tuple[int, int, int]]]
    odd: list[tuple[int, int]]


def cut_ranges(number: int, file: IO[bytes], start: int) -> Iterator[LineRange]:
    """Yields the lines of a file from `start`, in ranges that other processes can be sent."""
    whole = file.seek(0, os.SEEK_END)
    while start < whole:
        file.seek(min(start + _SIZE, whole))
        file.readline()
        end = file.tell()
        yield LineRange(number, Path(file.name), start, end)
        start = end


def index_lines(lines: LineRange) -> IndexedLines:
    """Checks every line of a range, up to as many faulty ones as are named."""
    odd: list[tuple[int, int]] = []
    noticed: set[str] = set()
    n_lines = 0

    def look() -> Iterator[tuple[str | None, int, int]]:
        """Yields the id of each line, None if it is faulty or blank, its number and where it starts."""
        nonlocal n_lines
        start, n_faulty = lines.start, 0
        with lines.path.open("rb") as file:
            file.seek(start)
            for raw in file:
                if start >= lines.end or n_faulty == MOST_FAULTS:
                    return
                n_noticed, identifier = len(noticed), None
                try:
                    identifier = _id_of(raw, lines.path, noticed)
                except SamplesError:
                    n_faulty += 1
                    odd.append((n_lines, start))
                if len(noticed) > n_noticed:
                    odd.append((n_lines, start))
                yield identifier, n_lines, start
                n_lines += 1
                start += len(raw)

    runs: list[tuple[str, tuple[int, int, int]]] = []
    for identifier, run in groupby(look(), key=itemgetter(0)):
        _, first, start = next(run)
        if identifier is not None:
            runs.append((identifier, (first, start, 1 + sum(1 for _ in run))))
    return IndexedLines(lines, n_lines, runs, odd)


def _id_of(raw: bytes, path: Path, noticed: set[str]) -> str | None:
    """Returns the id of a line's question, None if it is blank; fields that may be misspelt are added to `noticed`."""
    if not raw.strip():
        return None
    sample = to_sample(parse_line(raw, path, 0), path, 0, on_unknown=lambda field, *_: noticed.add(field))
    return sample["id"]


Runs: TypeAlias = "array[int]"
"""Four numbers for each run of lines: the number of the file, the first line, where it starts, how many it has."""


class Index:
    """The runs of lines of each question, by id, in a file of `open_scratch`.

    Example:
        >>> with ExitStack() as stack:
        ...     index = Index(stack)
        ...     for identifier, *run in (("b", 0, 1, 0, 1), ("a", 0, 2, 30, 2), ("b", 0, 4, 90, 1)):
        ...         index.add(identifier, run)
        ...     [(identifier, runs.tolist()) for identifier, runs in index]
        [('a', [0, 2, 30, 2]), ('b', [0, 1, 0, 1, 0, 4, 90, 1])]
    """

    def __init__(self, stack: ExitStack) -> None:
        """Creates an empty index, whose file ends when `stack` is closed."""
        self._file = open_scratch()
        stack.callback(self._file.close)
        self._file.execute("CREATE TABLE run (id BLOB, number INTEGER, line INTEGER, start INTEGER, n INTEGER)")
        self._file.execute("BEGIN")  # a transaction for each run would take longer than its lines

    def add(self, identifier: str, run: Iterable[int]) -> None:
        """Notes a run of lines of a question: the four numbers of `Runs`."""
        # as bytes, since SQLite's texts hold no unpaired surrogate; their order is that of the characters
        key = identifier.encode("utf-8", "surrogatepass")
        self._file.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?)", (key, *run))

    def __len__(self) -> int:
        (n,) = self._file.execute("SELECT COUNT(DISTINCT id) FROM run").fetchone()
        return int(n)

    def __iter__(self) -> Iterator[tuple[str, Runs]]:
        """Yields the runs of each question in the order of ids."""
        found = self._file.execute("SELECT id, number, line, start, n FROM run ORDER BY id, rowid")
        for key, rows in groupby(found, key=itemgetter(0)):
            yield key.decode("utf-8", "surrogatepass"), array("q", chain.from_iterable(run for _, *run in rows))
