"""Owns reading samples: saved responses, one a record, grouped by question whatever order the records are in.

DuckDB reads the files, sorts the records by question, and passes on those that are plainly valid. What is not plain is
judged here, one by one: so one table of `line` says what is valid.
"""

import glob
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import (
    PLAIN,
    PLAIN_NEEDS,
    find_faults,
    parse_object,
    to_sample,
)
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.tables import MOST_BYTES, RecordFile, Row, RowTable, find_form
from coe_agents.types import SampledQuestion

MOST_FAULTS = 20
"""Faulty records that are named at most."""


class Samples:
    """The samples of one or more files, read question by question.

    Every record is checked when they are opened; iterating then reads one question at a time, by id. The records are
    in temporary files, so memory does not grow with the questions. These may be spread over records and files (an agent
    a file, say), and the order of records changes nothing. Use it as a context manager: the temporary files end with
    it.

    Args:
        paths: Files of samples: JSON Lines, a JSON array, CSV or Parquet; those that end in ".gz" are compressed. A
            folder means the samples of the run in it, and a pattern such as "runs/*.jsonl" the files that it matches.

    Raises:
        SamplesError: A file cannot be read, records are malformed (up to 20 are listed), or there is none.

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
        self.paths = files_of(paths)
        self._files: list[RecordFile] = []
        self._table = RowTable()
        try:
            faults: list[str] = []
            for number, path in enumerate(self.paths):
                self._files.append(_find_file(path))
                faults += self._load(number)
                if len(faults) >= MOST_FAULTS:
                    listed = "\n".join(faults[:MOST_FAULTS])
                    raise SamplesError(
                        listed, hint=f"These are the first {MOST_FAULTS} faulty records"
                    )
            if faults:
                raise SamplesError("\n".join(faults))
            self._table.sort()
            if not self._table:
                named = ", ".join(str(path) for path in self.paths) or "no file"
                raise SamplesError(
                    f"{named}: there are no samples", hint="Pass files of one JSON object a line"
                )
        except BaseException:
            self._table.close()
            raise

    def __enter__(self) -> "Samples":
        return self

    def __exit__(self, *exception: object) -> None:
        self._table.close()

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[SampledQuestion]:
        for _, rows in self._table:
            yield _read_question(self._files, rows)

    def parts(self, size: int) -> "Iterator[SamplesPart]":
        """Yields the questions in parts of `size`, in order, for other processes to read."""
        groups = (rows for _, rows in self._table)
        while part := tuple(islice(groups, size)):
            yield SamplesPart(self._files, part)

    def _load(self, number: int) -> list[str]:
        """Puts the records of a file into the table, and returns what is wrong with the faulty ones, up to so many."""
        file = self._files[number]
        query, values = file.query()
        try:
            self._table.database.execute(
                f"INSERT INTO unsorted SELECT CASE WHEN {PLAIN} THEN encode(text->>'$.id') END, {number}, record, text "
                f"FROM (SELECT row_number() OVER () AS record, text, {PLAIN_NEEDS} FROM ({query}))",
                values,
            )
        except Exception as error:  # DuckDB has no error for what is wrong with a file
            raise _unreadable(file, error) from error

        doubtful = f"FROM unsorted WHERE key IS NULL AND file = {number} AND text IS"
        faults: dict[int, str] = {}
        texts = self._table.stream(f"SELECT record, text {doubtful} NOT NULL")
        self._table.add(_judge(number, texts, faults))
        # what DuckDB cannot read may be JSON to Python: an unpaired surrogate is
        unread = {record for (record,) in self._table.stream(f"SELECT record {doubtful} NULL")}
        lines = ((record, raw) for record, _, raw in file.raw_lines(unread))
        self._table.add(_judge(number, lines, faults))

        places = file.places(faults)
        return [f"{places[record]}: {faults[record]}" for record in sorted(faults)]


def _judge(
    number: int, records: Iterable[tuple[int, str | bytes]], faults: dict[int, str]
) -> Iterator[Row]:
    """Yields the valid ones of the records of a file, and notes what is wrong with the others, up to so many."""
    for record, text in records:
        try:
            sample = parse_object(text)
            wrong = find_faults(sample)
        except ValueError as error:
            wrong = [str(error)]
        if not wrong:
            # SQL has no text with an unpaired surrogate
            key = sample["id"].encode("utf-8", "surrogatepass")
            yield key, number, record, text if isinstance(text, str) else json.dumps(sample)
            continue
        faults[record] = "; ".join(wrong)
        if len(faults) == MOST_FAULTS:
            return


@dataclass(frozen=True, slots=True)
class SamplesPart:
    """Some questions of open samples, as another process is sent them."""

    files: Sequence[RecordFile]
    questions: tuple[list[Row], ...]

    def __iter__(self) -> Iterator[SampledQuestion]:
        for rows in self.questions:
            yield _read_question(self.files, rows)


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
    """Returns the files of samples that are named, in a folder of a run that is, or that match a pattern."""
    files: list[Path] = []
    for named in paths:
        path = Path(named)
        matching = [] if path.exists() else sorted(glob.glob(str(named), recursive=True))
        if path.is_dir() and not (path / SAMPLES).exists():
            hint = f"Pass files, or a folder that `sample` wrote: {SAMPLES}"
            raise SamplesError(f"{path} holds no samples", hint=hint)
        if path.is_dir():
            files.append(path / SAMPLES)
        elif matching:
            files += [Path(match) for match in matching]
        else:
            files.append(path)
    return files


def _find_file(path: Path) -> RecordFile:
    try:
        return RecordFile(path, find_form(path))
    except (OSError, ValueError) as error:
        hint = "Check the path, and that the file is complete"
        raise SamplesError(f"{path} cannot be read: {error}", hint=hint) from error


def _unreadable(file: RecordFile, error: Exception) -> SamplesError:
    """Returns what is wrong with a file that DuckDB does not read: the place of a record that is too long, if any."""
    if file.form == "lines":
        for record, _, raw in file.raw_lines(None):
            if len(raw) > MOST_BYTES:
                (place,) = file.places([record]).values()
                return SamplesError(
                    f"{place}: this line is longer than {MOST_BYTES // 2**20} MB",
                    hint="A response is less. Correct it, or omit the line",
                )
    said = str(error).split("\nPossible", 1)[0].splitlines()
    return SamplesError(f"{file.path} cannot be read: {' '.join(said)}")


def _read_question(files: Sequence[RecordFile], rows: Sequence[Row]) -> SampledQuestion:
    """Returns a question; a SamplesError if two of its records are of the same response, or ask something else."""

    def place_of(row: Row) -> str:
        _, file, record, _ = row
        return files[file].places([record])[record]

    samples = [to_sample(record) for record in _parse(rows)]
    seen: dict[tuple[str, int, int], int] = {}
    for number, (sample, row) in enumerate(zip(samples, rows, strict=True)):
        key = sample["agent"], sample["round"], sample["index"]
        if key in seen:
            raise SamplesError(
                f"{place_of(row)}: question {sample['id']!r} has this agent, round and index at "
                f"{place_of(rows[seen[key]])} already",
                hint="Pass each file once, and give each response of an agent its own index",
            )
        if sample["question"] != samples[0]["question"]:
            hint = "Give every question an id of its own, across all files"
            raise SamplesError(
                f"{place_of(row)}: another question has the id {sample['id']!r} already", hint=hint
            )
        seen[key] = number
    ordered = [samples[seen[key]] for key in sorted(seen)]  # the canonical order
    lists = sorted(
        {tuple(sample["references"]) for sample in ordered}
    )  # in an order that no agent decides
    return SampledQuestion(
        id=ordered[0]["id"],
        text=ordered[0]["question"],
        references=tuple(
            dict.fromkeys(reference for references in lists for reference in references)
        ),
        responses=tuple([sample for sample in ordered if sample["error"] is None]),
        failures=tuple([sample for sample in ordered if sample["error"] is not None]),
    )


def _parse(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Returns the objects of records that were read before; many are read faster at once."""
    parsed: list[dict[str, Any]] = json.loads(f"[{','.join([text for *_, text in rows])}]")
    return parsed
