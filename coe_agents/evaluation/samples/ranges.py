"""Owns the first look at lines of samples: which are faulty, and where those of each question are.

A file is looked at in ranges of lines, of which processes can take one each. A range does not know the numbers of its
lines in the file, so what is wrong with a line is only noted here; the reader says it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import parse_line, to_sample, usual_id, usual_line

MOST_FAULTS = 20
"""Faulty lines after which no more are looked at."""
_SIZE = 2**24
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
    looking = _Looking(lines.path)
    runs: list[tuple[str, tuple[int, int, int]]] = []
    odd: list[tuple[int, int]] = []
    before, first, place, n = None, 0, 0, 0
    start, line, n_faulty = lines.start, 0, 0
    with lines.path.open("rb") as file:
        file.seek(start)
        for line, raw in enumerate(file):
            if start >= lines.end or n_faulty == MOST_FAULTS:
                break
            identifier, is_odd = looking.at(raw) if raw.strip() else (None, False)
            if is_odd:
                odd.append((line, start))
                n_faulty += identifier is None
            if identifier is not None and identifier == before:
                n += 1
            else:
                if before is not None:
                    runs.append((before, (first, place, n)))
                before, first, place, n = identifier, line, start, 1
            start += len(raw)
        else:
            line += 1
    if before is not None:
        runs.append((before, (first, place, n)))
    return IndexedLines(lines, line, runs, odd)


class _Looking:
    """Looks at one line after the other; most have the fields of the line before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._noticed: set[str] = set()
        self._names: tuple[str, ...] = ()
        self._usual: re.Pattern[str] | None = None

    def at(self, raw: bytes) -> tuple[str | None, bool]:
        """Returns the id of a line's question, None if the line is faulty, and whether there is something to say."""
        if self._usual is not None and (identifier := usual_id(self._usual, raw)) is not None:
            return identifier, False
        n_noticed = len(self._noticed)
        try:
            record = parse_line(raw, self._path, 0)
            names = tuple(record)
            sample = to_sample(record, self._path, 0, on_unknown=lambda field, *_: self._noticed.add(field))
        except SamplesError:
            return None, True
        if names == self._names:  # not at once: a pattern takes longer than a line
            self._usual = usual_line(names)
        self._names = names
        return sample["id"], len(self._noticed) > n_noticed
