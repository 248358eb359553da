"""Owns reading samples: saved responses, one a line, grouped by question whatever order the lines are in."""

import gzip
import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, starmap
from pathlib import Path
from typing import IO, Any

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import check_line, parse_line, to_sample
from coe_agents.evaluation.samples.ranges import (
    MOST_FAULTS,
    IndexedLines,
    LineRange,
    Runs,
    cut_ranges,
    index_lines,
    index_runs,
)
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.workers import ALONE, Workers
from coe_agents.files import parse_json
from coe_agents.types import SampledQuestion


class Samples:
    """The samples of one or more files, read question by question.

    The files are read once to check every line and to note where each question's lines are; iterating then reads one
    question at a time, by id. The places are in a temporary file, so memory does not grow with the
    questions. These may be spread over lines and files (an agent a file, say), and the order of lines
    changes nothing. Use it as a context manager: a compressed file is unpacked to a temporary one until then.

    Args:
        paths: `*.samples.jsonl` files; those that end in ".gz" are compressed. A folder means
            the samples of the run in it.
        workers: Processes that share the check of the lines.

    Raises:
        SamplesError: A file cannot be read, lines are malformed (all are listed, up to 20), or there is no line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "one.samples.jsonl"
        ...     _ = path.write_text('{"id": "1", "agent": "a", "index": 0, "text": "Paris"}')
        ...     with Samples([path]) as samples:
        ...         [(question.id, len(question.responses)) for question in samples]
        [('1', 1)]
    """

    def __init__(self, paths: Sequence[str | Path], *, workers: Workers = ALONE) -> None:
        self.paths = files_of(paths)
        self._files: list[IO[bytes]] = []
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            unpacked = stack.enter_context((folder / "unpacked").open("w+b"))  # one for all, as open files are not many
            self._faults: list[str] = []
            self._places = index_runs(self._runs(workers.map(index_lines, self._ranges(unpacked, stack))))
            self._reader = QuestionReader(self.paths, self._files)
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
        return starmap(self._reader.read, self._places)

    def parts(self, size: int) -> "Iterator[SamplesPart]":
        """Yields the questions in parts of `size`, in order, for other processes to read."""
        files = tuple((path, Path(file.name)) for path, file in zip(self.paths, self._files, strict=True))
        places = iter(self._places)
        while part := tuple(islice(places, size)):
            yield SamplesPart(files, part)

    def _ranges(self, unpacked: IO[bytes], stack: ExitStack) -> Iterator[LineRange]:
        for number, path in enumerate(self.paths):
            file, start = _open(path, unpacked)
            self._files.append(stack.enter_context(file))
            file.flush()  # other processes read it
            yield from cut_ranges(number, file, start)

    def _runs(self, ranges: Iterable[IndexedLines]) -> Iterator[tuple[str, Runs]]:
        """Yields the id of each run of lines, and where it is; the faulty lines are named."""
        n_lines = Counter[int]()
        for found in ranges:
            number = found.of.number
            for line, start in found.faulty:
                self._files[number].seek(start)
                self._name_fault(self._files[number].readline(), self.paths[number], n_lines[number] + line + 1)
            for identifier, (first, start, n) in found.runs:
                yield identifier, [number, n_lines[number] + first + 1, start, n]
            n_lines[number] += found.n_lines

    def _name_fault(self, raw: bytes, path: Path, line: int) -> None:
        try:
            check_line(parse_line(raw, path, line), path, line)
        except SamplesError as error:
            self._faults.append(str(error))
        if len(self._faults) == MOST_FAULTS:
            raise SamplesError("\n".join(self._faults), hint=f"These are the first {MOST_FAULTS} faulty lines")


@dataclass(frozen=True, slots=True)
class SamplesPart:
    """Some questions of open samples, as another process is sent them: the files, and where their lines are."""

    files: tuple[tuple[Path, Path], ...]
    places: tuple[tuple[str, Runs], ...]

    def __iter__(self) -> Iterator[SampledQuestion]:
        with ExitStack() as stack:
            opened = [stack.enter_context(lines.open("rb")) for _, lines in self.files]
            yield from starmap(QuestionReader([path for path, _ in self.files], opened).read, self.places)


def files_of(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the files of samples that are named, or in a folder of a run that is."""
    files = [path / SAMPLES if path.is_dir() else path for path in map(Path, paths)]
    for file, path in zip(files, paths, strict=True):
        if file != Path(path) and not file.exists():
            raise SamplesError(
                f"{path} holds no samples", hint=f"Pass files, or a folder that `sample` wrote: {SAMPLES}"
            )
    return files


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


class QuestionReader:
    """Reads questions whose places are known, from files that are open."""

    def __init__(self, paths: Sequence[Path], files: Sequence[IO[bytes]]) -> None:
        self._paths, self._files = paths, files

    def read(self, identifier: str, runs: Runs) -> SampledQuestion:
        """Returns a question; a SamplesError if two of its lines are of the same response, or ask something else."""
        lines = list(self._lines(runs))
        samples = list(map(to_sample, _parse([raw for *_, raw in lines])))
        seen: dict[tuple[str, int, int], int] = {}
        for place, (sample, (path, line, _)) in enumerate(zip(samples, lines, strict=True)):
            key = sample["agent"], sample["round"], sample["index"]
            if key in seen:
                raise SamplesError(
                    f"{path}:{line}: question {identifier!r} has this agent, round and index at "
                    f"{':'.join(map(str, lines[seen[key]][:2]))} already",
                    hint="Pass each file once, and give each response of an agent its own index",
                )
            if sample["question"] != samples[0]["question"]:
                raise SamplesError(
                    f"{path}:{line}: another question has the id {identifier!r} already",
                    hint="Give every question an id of its own, across all files",
                )
            seen[key] = place
        ordered = [samples[seen[key]] for key in sorted(seen)]  # the canonical order
        lists = sorted({tuple(sample["references"]) for sample in ordered})  # in an order that no agent decides
        return SampledQuestion(
            id=identifier,
            text=ordered[0]["question"],
            references=tuple(dict.fromkeys(reference for references in lists for reference in references)),
            responses=tuple([sample for sample in ordered if sample["error"] is None]),
            failures=tuple([sample for sample in ordered if sample["error"] is not None]),
        )

    def _lines(self, runs: Runs) -> Iterator[tuple[Path, int, bytes]]:
        numbers = iter(runs)
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            file, path = self._files[number], self._paths[number]
            file.seek(start)
            for line in range(first, first + n_lines):
                yield path, line, file.readline()


def _parse(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Returns the objects of lines that were read before; many are read faster at once."""
    try:
        return list(json.loads(b"[%s]" % b",".join(lines)))
    except ValueError:  # a byte order mark, or another encoding
        return [parse_json(line) for line in lines]
