"""Owns reading samples: saved responses, one a line, grouped by question whatever order the lines are in."""

import gzip
import json
import os
import tempfile
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TypeAlias

from coe_agents.errors import SamplesError
from coe_agents.evaluation.disk_sequence import DiskSequence
from coe_agents.evaluation.samples.line import check_line, parse_line
from coe_agents.evaluation.samples.sampled_question import SampledQuestion, join_lines
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.files import parse_json_objects

_MOST_FAULTS = 20
"""Faulty lines after which no more are looked at."""
_TOGETHER = 2**13
"""Bytes of lines that are parsed together: enough to be fast, and a faulty line makes few slow."""

_Runs: TypeAlias = list[int]
"""Four numbers for each run of lines: the number of the file, the first line, where it starts, how many it has."""


class Samples:
    """The samples of one or more files, read question by question.

    The files are read once to check every line and to note where each question's lines are; iterating then reads one
    question at a time, by id. The places are in a temporary file, so memory does not grow with the
    questions. These may be spread over lines and files (an agent a file, say), and the order of lines
    changes nothing. Use it as a context manager: a compressed file is unpacked to a temporary one until then.

    Args:
        paths: `*.samples.jsonl` files; those that end in ".gz" are compressed. A folder means
            the samples of the run in it.

    Raises:
        SamplesError: A file cannot be read, lines are malformed (all are listed, up to 20), or there is no line.

    Warns:
        UserWarning: A line lacks a field, and has an unknown one of a similar name.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "one.samples.jsonl"
        ...     _ = path.write_text('{"id": "1", "agent": "a", "index": 0, "text": "Paris"}')
        ...     with Samples([path]) as samples:
        ...         [(question.id, len(question.responses)) for question in samples]
        [('1', 1)]
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.paths = [_file_of(Path(path)) for path in paths]
        self._files: list[IO[bytes]] = []
        self._faults: list[str] = []
        self._noticed: set[str] = set()
        with ExitStack() as stack:
            unpacked = stack.enter_context(tempfile.TemporaryFile())  # one for all, as open files are not many
            self._places = _index_runs(self._find_runs(unpacked, stack))
            if self._faults:
                raise SamplesError("\n".join(self._faults))
            if not self._places:
                named = ", ".join(str(path) for path in self.paths) or "no file"
                raise SamplesError(f"{named}: there are no samples", hint="Pass files of one JSON object a line")
            self._stack = stack.pop_all()

    def __enter__(self) -> "Samples":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[SampledQuestion]:
        for identifier, runs in self._places:
            yield join_lines(identifier, list(self._read(runs)))

    def _read(self, runs: _Runs) -> Iterator[tuple[Path, int, bytes]]:
        numbers = iter(runs)
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            self._files[number].seek(start)
            for line in range(first, first + n_lines):
                yield self.paths[number], line, self._files[number].readline()

    def _find_runs(self, unpacked: IO[bytes], stack: ExitStack) -> Iterator[tuple[str, _Runs]]:
        """Opens one file after the other, and yields the id of each run of lines, and where it is."""
        for number, path in enumerate(self.paths):
            file, start = _open(path, unpacked)
            self._files.append(stack.enter_context(file))
            file.seek(start)
            for identifier, lines in groupby(self._check_lines(file, path, start), key=itemgetter(0)):
                _, first, place = next(lines)
                if identifier is not None:
                    yield identifier, [number, first, place, 1 + sum(1 for _ in lines)]

    def _check_lines(self, file: IO[bytes], path: Path, start: int) -> Iterator[tuple[str | None, int, int]]:
        """Yields of each line the id, None if it is faulty or blank, its number and where it starts."""
        number = 0
        while together := file.readlines(_TOGETHER):
            for raw, parsed in zip(together, parse_json_objects(together) or repeat(None), strict=False):
                number += 1
                yield self._check_line(raw, parsed, path, number), number, start
                start += len(raw)

    def _check_line(self, raw: bytes, parsed: dict[str, Any] | None, path: Path, number: int) -> str | None:
        try:
            if parsed is not None or raw.strip():
                record = parsed or parse_line(raw, path, number)
                check_line(record, path, number, on_unknown=self._notice)
                return str(record["id"])
        except SamplesError as error:
            self._faults.append(str(error))
            if len(self._faults) == _MOST_FAULTS:
                hint = f"These are the first {_MOST_FAULTS} faulty lines"
                raise SamplesError("\n".join(self._faults), hint=hint) from error
        return None

    def _notice(self, field: str, place: str, near: str) -> None:
        if field not in self._noticed:
            self._noticed.add(field)
            warnings.warn(f'{place}: the field "{field}" is not read. Did you mean "{near}"?', stacklevel=5)


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    if not (path / SAMPLES).exists():
        raise SamplesError(f"{path} holds no samples", hint=f"Pass files, or a folder that `sample` wrote: {SAMPLES}")
    return path / SAMPLES


def _open(path: Path, unpacked: IO[bytes]) -> tuple[IO[bytes], int]:
    try:
        if path.suffix != ".gz":
            return path.open("rb"), 0
        start = unpacked.seek(0, os.SEEK_END)
        with gzip.open(path, "rb") as packed:
            unpacked.writelines(line.rstrip(b"\n") + b"\n" for line in packed)  # the last one may not end
    except (OSError, EOFError, zlib.error) as error:
        raise SamplesError(
            f"{path} cannot be read: {error}", hint="Check the path, and that the file is complete"
        ) from error
    return unpacked, start


def _index_runs(runs: Iterable[tuple[str, _Runs]]) -> DiskSequence[tuple[str, _Runs]]:
    """Returns the runs of lines of each question, in the order of ids, on the disk."""
    return DiskSequence(
        runs,
        # SQLite's texts hold no unpaired surrogate; the order of these bytes is that of the characters
        key=lambda run: run[0].encode("utf-8", "surrogatepass"),
        encode=json.dumps,
        decode=lambda text: tuple(json.loads(text)),
        merge=lambda same: (same[0][0], list(chain.from_iterable(run for _, run in same))),
    )
