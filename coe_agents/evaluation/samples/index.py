"""Owns where the lines of each question are: sorted on the disk, so that memory does not grow with the questions."""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeAlias

from coe_agents.evaluation.samples.folder import open_scratch

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
