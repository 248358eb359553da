"""Owns reading samples: saved responses, one a line, grouped by question whatever order the lines are in.

A first look notes which lines are faulty, and where those of each question are, sorted. A file is looked at in ranges
of lines, of which processes can take one each. A range does not know the numbers of its lines in the file, so what is
wrong with a line is only noted; the reader says it.
"""

import gzip
import json
import os
import shutil
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, repeat, starmap
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from coe_agents import _ring
from coe_agents.clustering import Clusterer
from coe_agents.errors import SamplesError
from coe_agents.evaluation.disk_sequence import DiskSequence
from coe_agents.evaluation.frames import import_pandas, rows_of_frame
from coe_agents.evaluation.origin import Origin, origin_of
from coe_agents.evaluation.samples.line import check_line, parse_line, to_sample
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.workers import ALONE, Workers
from coe_agents.files import parse_json, parse_json_objects
from coe_agents.measurement.weighting import Weighting
from coe_agents.types import Sample, SampledQuestion

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
    for raw, parsed in _parse_from(lines.path, start):
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


def _parse_from(path: Path, start: int) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
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


class Samples:
    """The samples of one or more files, read question by question.

    The files are read once to check every line and to note where each question's lines are; iterating then reads one
    question at a time, by id. The places are in a temporary file, so memory does not grow with the
    questions. These may be spread over lines and files (an agent a file, say), and the order of lines
    changes nothing. As a context manager it closes its files at the end of the block, else when nothing refers to it.

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

    clusterer: Clusterer | None = None
    """What compares the responses, where whoever sampled them passed it; else it is created from its record."""

    def __init__(
        self, paths: str | Path | Sequence[str | Path], *, workers: Workers = ALONE
    ) -> None:
        self.paths = files_of([paths] if isinstance(paths, str | Path) else paths)
        self._files: list[IO[bytes]] = []
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            unpacked = stack.enter_context(
                (folder / "unpacked").open("w+b")
            )  # one for all, as open files are not many
            self._faults: list[str] = []
            self._places = index_runs(
                self._runs(workers.map(index_lines, self._ranges(unpacked, stack)))
            )
            if self._faults:
                raise SamplesError("\n".join(self._faults))
            if not self._places:
                named = ", ".join(str(path) for path in self.paths) or "no file"
                raise SamplesError(
                    f"{named}: there are no samples", hint="Pass files of one JSON object a line"
                )
            self._stack = stack.pop_all()
        weakref.finalize(self, self._stack.close)

    def __enter__(self) -> "Samples":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[SampledQuestion]:
        # a generator keeps the object, and with it the open files
        for identifier, runs in self._places:
            yield _read_question(self.paths, self._files, identifier, runs)

    @property
    def origin(self) -> Origin:
        """What the responses were made with: the agents, the prompt, the preset of answers, and how they are judged.

        All of it is None or empty where no run recorded it, or several runs recorded different things.
        """
        return origin_of(self.paths)

    def judge(
        self,
        *,
        clusterer: Any = None,
        correctness: Any = None,
        weighting: Weighting = "auto",
        every_cluster: bool = True,
        proposer: str | None = None,
    ) -> Any:
        """Returns a row of each question that has a response: what a policy is shown, and whether the group was right.

        `coe_agents.calibrate` takes these rows, too.

        Args:
            clusterer: What compares the responses, or its name; None: as recorded, else `NormalizedMatch()`.
            correctness: A criterion, or its name; None: as recorded, else "reference_or_label".
            weighting: How responses count: "auto", "frequency" or "probability".
            every_cluster: Whether every cluster is judged, and not only the leading one.
            proposer: The agent whose first response is judged, in place of the group's answer.
        """
        # what creates a recorded clusterer stands above this package
        arguments = _ring.load("experiments.judging:JudgingArguments")
        judge = _ring.load("experiments.judging:judge")
        how = arguments(clusterer=clusterer, correctness=correctness, weighting=weighting)
        return judge(self, how, every_cluster=every_cluster, proposer=proposer)

    def to_frame(self) -> Any:
        """Returns a pandas data frame, a row for each response, and for each failed request, whose `error` is set."""
        pandas = import_pandas()
        rows: list[Sample] = []
        for question in self:
            rows += [*question.responses, *question.failures]
        return pandas.DataFrame(rows)

    @classmethod
    def from_frame(cls, frame: Any, columns: Mapping[str, str] | None = None) -> "Samples":
        """Returns the samples of a data frame, a row for each response; they are kept in a temporary file.

        Needed are "id" or "question", "agent" and "text"; the other columns are the fields of a line of samples. Rows
        of one question and agent are numbered in their order, unless there is an "index". Missing values are left out.

        Args:
            frame: Of pandas, or of a library whose frames have `to_pandas`.
            columns: Our name of a column, and the name that it has: `{"text": "response"}`.

        Raises:
            SamplesError: A row is no response.
            ValueError: A column does not exist.
        """
        folder = tempfile.mkdtemp(prefix="coe-agents-")
        path = Path(folder, "frame.samples.jsonl")
        try:
            with path.open("w", encoding="utf-8") as file:
                for row in rows_of_frame(frame, columns or {}):
                    file.write(json.dumps(row) + "\n")
            samples = cls([path])
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(samples, shutil.rmtree, folder, ignore_errors=True)
        return samples

    def parts(self, size: int) -> "Iterator[SamplesPart]":
        """Yields the questions in parts of `size`, in order, for other processes to read."""
        files = tuple(
            (path, Path(file.name)) for path, file in zip(self.paths, self._files, strict=True)
        )
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
                self._name_fault(
                    self._files[number].readline(), self.paths[number], n_lines[number] + line + 1
                )
            for identifier, (first, start, n) in found.runs:
                yield identifier, [number, n_lines[number] + first + 1, start, n]
            n_lines[number] += found.n_lines

    def _name_fault(self, raw: bytes, path: Path, line: int) -> None:
        try:
            check_line(parse_line(raw, path, line), path, line)
        except SamplesError as error:
            self._faults.append(str(error))
        if len(self._faults) == MOST_FAULTS:
            raise SamplesError(
                "\n".join(self._faults), hint=f"These are the first {MOST_FAULTS} faulty lines"
            )


@dataclass(frozen=True, slots=True)
class SamplesPart:
    """Some questions of open samples, as another process is sent them: the files, and where their lines are."""

    files: tuple[tuple[Path, Path], ...]
    places: tuple[tuple[str, Runs], ...]

    def __iter__(self) -> Iterator[SampledQuestion]:
        with ExitStack() as stack:
            opened = [stack.enter_context(lines.open("rb")) for _, lines in self.files]
            yield from starmap(
                partial(_read_question, [path for path, _ in self.files], opened), self.places
            )


def without_rulings(questions: Iterable[SampledQuestion]) -> Iterator[SampledQuestion]:
    """Yields the questions; refuses cases that were seen with unequal probabilities, which no count may pool."""
    for question in questions:
        if any(
            "seen_probability" in sample for sample in (*question.responses, *question.failures)
        ):
            case = f"the case {question.id[:50]!r} was seen with a probability of its own"
            hint = "For samples of harvest: calibrate --current POLICY"
            raise SamplesError(f"{case}, and its errors cannot be counted like others", hint=hint)
        yield question


def files_of(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the files of samples that are named, or in a folder of a run that is."""
    files = [path / SAMPLES if path.is_dir() else path for path in map(Path, paths)]
    for file, path in zip(files, paths, strict=True):
        if file != Path(path) and not file.exists():
            hint = f"Pass files, or a folder that `sample` wrote: {SAMPLES}"
            raise SamplesError(f"{path} holds no samples", hint=hint)
    return files


def _open(path: Path, unpacked: IO[bytes]) -> tuple[IO[bytes], int]:
    try:
        if path.suffix != ".gz":
            return path.open("rb"), 0
        start = unpacked.seek(0, os.SEEK_END)
        with gzip.open(path, "rb") as packed:
            unpacked.writelines(
                line.rstrip(b"\n") + b"\n" for line in packed
            )  # the last one may not end
    except (OSError, EOFError, zlib.error) as error:
        hint = "Check the path, and that the file is complete"
        raise SamplesError(f"{path} cannot be read: {error}", hint=hint) from error
    return unpacked, start


def _read_question(
    paths: Sequence[Path], files: Sequence[IO[bytes]], identifier: str, runs: Runs
) -> SampledQuestion:
    """Returns a question; a SamplesError if two of its lines are of the same response, or ask something else."""
    lines, numbers = list[tuple[Path, int, bytes]](), iter(runs)
    for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
        file, path = files[number], paths[number]
        file.seek(start)
        lines += [(path, line, raw) for line, raw in enumerate(islice(file, n_lines), first)]
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
            hint = "Give every question an id of its own, across all files"
            raise SamplesError(
                f"{path}:{line}: another question has the id {identifier!r} already", hint=hint
            )
        seen[key] = place
    ordered = [samples[seen[key]] for key in sorted(seen)]  # the canonical order
    lists = sorted(
        {tuple(sample["references"]) for sample in ordered}
    )  # in an order that no agent decides
    return SampledQuestion(
        id=identifier,
        text=ordered[0]["question"],
        references=tuple(
            dict.fromkeys(reference for references in lists for reference in references)
        ),
        responses=tuple([sample for sample in ordered if sample["error"] is None]),
        failures=tuple([sample for sample in ordered if sample["error"] is not None]),
    )


def _parse(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Returns the objects of lines that were read before; many are read faster at once."""
    try:
        return list(json.loads(b"[%s]" % b",".join(lines)))
    except ValueError:  # a byte order mark, or another encoding
        return [parse_json(line) for line in lines]
