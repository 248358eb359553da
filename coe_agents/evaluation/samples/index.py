"""Owns where the lines of each question are: in memory up to a number of questions, beyond it sorted on the disk."""

import heapq
import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

HELD = 20_000
"""Questions whose places are in memory at once, some 5 MB."""

MOST_FILES = 64
"""A process may open only so many; beyond them they are merged into one."""

Runs: TypeAlias = "array[int]"
"""Four numbers for each run of lines: the number of the file, the first line, where it starts, how many it has."""


class Index:
    """The runs of lines of each question, by id.

    Beyond `held` ids, the runs of each `held` ids are sorted and written to a temporary file of their own, and the
    files are merged while they are read (an external sort). So memory does not grow with the questions, and what is
    read is the same.

    Example:
        >>> with ExitStack() as stack:
        ...     index = Index(stack, held=1)
        ...     for identifier, *run in (("b", 0, 1, 0, 1), ("a", 0, 2, 30, 2), ("b", 0, 4, 90, 1)):
        ...         index.add(identifier, run)
        ...     [(identifier, runs.tolist()) for identifier, runs in index]
        [('a', [0, 2, 30, 2]), ('b', [0, 1, 0, 1, 0, 4, 90, 1])]
    """

    def __init__(self, stack: ExitStack, *, held: int = HELD) -> None:
        """Creates an empty index, whose temporary files are removed when `stack` is closed."""
        self._stack, self._held = stack, held
        self._runs: dict[str, Runs] = {}
        self._files: list[Path] = []
        self._size: int | None = 0

    def add(self, identifier: str, run: Iterable[int]) -> None:
        """Notes a run of lines of a question: the four numbers of `Runs`."""
        self._size = None
        runs = self._runs.get(identifier)
        if runs is None:
            if len(self._runs) == self._held:
                self._write()
            runs = self._runs[identifier] = array("q")
        runs.extend(run)

    def __bool__(self) -> bool:
        return bool(self._runs or self._files)

    def __len__(self) -> int:
        if self._size is None:
            self._size = sum(1 for _ in self) if self._files else len(self._runs)
        return self._size

    def __iter__(self) -> Iterator[tuple[str, Runs]]:
        """Yields the runs of each question in the order of ids."""
        if not self._files:
            yield from ((identifier, self._runs[identifier]) for identifier in sorted(self._runs))
            return
        if self._runs:
            self._write()
        merged = heapq.merge(*map(_read, self._files), key=itemgetter(0))
        for identifier, parts in groupby(merged, key=itemgetter(0)):
            yield identifier, sum((array("q", runs) for _, runs in parts), array("q"))

    def _write(self) -> None:
        if not self._files:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        path = self._folder / str(len(self._files))
        _dump(((identifier, self._runs[identifier].tolist()) for identifier in sorted(self._runs)), path)
        self._files.append(path)
        if len(self._files) == MOST_FILES:
            whole = self._folder / "joined"
            _dump(heapq.merge(*map(_read, self._files), key=itemgetter(0)), whole)
            for one in self._files:
                one.unlink()
            self._files = [whole.rename(self._folder / "0")]
        self._runs = {}


def _dump(runs: Iterable[tuple[str, list[int]]], path: Path) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(json.dumps(each) + "\n" for each in runs)


def _read(path: Path) -> Iterator[tuple[str, list[int]]]:
    with path.open(encoding="ascii") as file:
        yield from map(json.loads, file)
