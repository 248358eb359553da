"""Owns the first look at lines of samples: which are faulty, and where those of each question are, sorted.

A file is looked at in ranges of lines, of which processes can take one each. A range does not know the numbers of its
lines in the file, so what is wrong with a line is only noted here; the reader says it.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from coe_agents.errors import SamplesError
from coe_agents.evaluation.disk_sequence import DiskSequence
from coe_agents.evaluation.samples.line import check_line, parse_line
from coe_agents.files import parse_json_objects

MOST_FAULTS = 20
"""Faulty lines after which no more are looked at."""
_SIZE = 2**22
"""Bytes of a range, but that it holds whole lines."""
_TOGETHER = 2**13
"""Bytes of lines that are parsed together: enough to be fast, and a faulty line makes few slow."""


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
        faulty: The lines that are faulty, and where each starts.
    """

    of: LineRange
    n_lines: int
    runs: list[tuple[str, list[int]]]
    faulty: list[tuple[int, int]]


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
    runs: list[tuple[str, list[int]]] = []
    faulty: list[tuple[int, int]] = []
    n_lines, start, before = 0, lines.start, None
    for raw, parsed in _parse(lines.path, start):
        if start >= lines.end or len(faulty) == MOST_FAULTS:
            break
        identifier = None  # it stays if the line is faulty or blank
        try:
            if parsed is not None or raw.strip():
                record = parsed or parse_line(raw, lines.path, 0)
                check_line(record, lines.path, 0)
                identifier = record["id"]
        except SamplesError:
            faulty.append((n_lines, start))
        if identifier is not None and identifier == before:
            runs[-1][1][-1] += 1
        elif identifier is not None:
            runs.append((identifier, [n_lines, start, 1]))
        before = identifier
        n_lines += 1
        start += len(raw)
    return IndexedLines(lines, n_lines, runs, faulty)


def _parse(path: Path, start: int) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yields each line from `start` on with its object; with None where it has to be parsed alone."""
    with path.open("rb") as file:
        file.seek(start)
        while together := file.readlines(_TOGETHER):
            yield from zip(together, parse_json_objects(together) or repeat(None), strict=False)


Runs: TypeAlias = list[int]
"""Four numbers for each run of lines: the number of the file, the first line, where it starts, how many it has."""


def index_runs(runs: Iterable[tuple[str, Runs]]) -> DiskSequence[tuple[str, Runs]]:
    """Returns the runs of lines of each question, in the order of ids, on the disk.

    Example:
        >>> list(index_runs([("b", [0, 1, 0, 1]), ("a", [0, 2, 30, 2]), ("b", [0, 4, 90, 1])]))
        [('a', [0, 2, 30, 2]), ('b', [0, 1, 0, 1, 0, 4, 90, 1])]
    """
    return DiskSequence(
        runs,
        # SQLite's texts hold no unpaired surrogate; the order of these bytes is that of the characters
        key=lambda run: run[0].encode("utf-8", "surrogatepass"),
        encode=json.dumps,
        decode=lambda text: tuple(json.loads(text)),
        merge=lambda same: (same[0][0], list(chain.from_iterable(run for _, run in same))),
    )
