"""Owns reading samples: saved responses, one a line, grouped by question whatever order the lines are in."""

import gzip
import json
import os
import tempfile
import warnings
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from coe_agents.actions import canonical_action
from coe_agents.documents import parse_json
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.parquet import PARTS, rows_of
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.types import Response, in_canonical_order

_MOST_FAULTS = 20
_NEAR = 0.8
"""How alike a misspelt name is to the right one, by `difflib`; "answerable" is no misspelling of "answer"."""


class Sample(Response):
    """One line: a response, and what is known about it. Unknown fields are kept.

    The `answer` of a line with `calls` and without one is their canonical form.

    Attributes:
        question: What was asked; "" where not known.
        references: Accepted answers; may be empty.
        correct: A verdict in the data; None where there is no verdict.
        tools: The schemas of the tools that the model was shown; None where not known.
    """

    id: str
    question: str
    references: list[str]
    correct: bool | None
    tools: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class SampledQuestion:
    """All samples of one question, in canonical order.

    Attributes:
        text: What was asked; "" where not known.
        references: The accepted answers of all its samples, each once.
        responses: The samples without an `error`.
        failures: The samples whose `error` is set.
    """

    id: str
    text: str
    references: tuple[str, ...]
    responses: tuple[Sample, ...]
    failures: tuple[Sample, ...]


class Samples:
    """The samples of one or more files, read question by question.

    The files are read once to check every line and to note where each question's lines are; iterating then reads one
    question at a time, by id. So memory holds a few numbers a question, questions may be spread over lines and files
    (an agent a file, say), and the order of lines changes nothing. Use it as a context manager: a compressed file, or a
    Parquet one, is unpacked to a temporary one until then.

    Args:
        paths: `*.samples.jsonl` files; those that end in ".gz" are compressed, those in ".parquet" are Parquet, where a
            line is a row. A folder means the samples of the run in it.

    Raises:
        SamplesError: A file cannot be read, lines are malformed (all are listed, up to 20), or there is no line.
        ImportError: There is a Parquet file, and pyarrow is not installed.

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
        self.paths = [file for path in paths for file in _files_of(Path(path))]
        self._places: dict[str, array[int]] = {}
        self._files: list[IO[bytes]] = []
        with ExitStack() as stack:
            unpacked = stack.enter_context(tempfile.TemporaryFile())  # one for all, as open files are not many
            self._faults: list[str] = []
            self._noticed: set[str] = set()
            for number, path in enumerate(self.paths):
                file, start = _open(path, unpacked)
                self._files.append(stack.enter_context(file))
                self._index(number, path, file, start)
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
        for identifier in sorted(self._places):
            yield self._question(identifier)

    def _index(self, number: int, path: Path, file: IO[bytes], start: int) -> None:
        """Notes each run of lines of one question under its id: file, first line, start, how many lines."""
        file.seek(start)
        before = None
        for line, raw in enumerate(file, start=1):
            identifier = self._identifier(raw, path, line) if raw.strip() else None
            if len(self._faults) == _MOST_FAULTS:
                raise SamplesError("\n".join(self._faults), hint=f"These are the first {_MOST_FAULTS} faulty lines")
            if identifier is not None:
                runs = self._places.setdefault(identifier, array("q"))
                if identifier == before:
                    runs[-1] += 1
                else:
                    runs.extend((number, line, start, 1))
            start, before = start + len(raw), identifier

    def _identifier(self, raw: bytes, path: Path, line: int) -> str | None:
        """Returns the id of a line's question; None if the line is faulty, which is noted."""
        try:
            sample = _sample(raw, path, line, on_unknown=self._notice)
        except SamplesError as error:
            self._faults.append(str(error))
            return None
        return sample["id"]

    def _notice(self, field: str, place: str, near: str) -> None:
        """Warns of a field that is probably misspelt, once for all lines."""
        if field not in self._noticed:
            self._noticed.add(field)
            warnings.warn(f'{place}: the field "{field}" is not read. Did you mean "{near}"?', stacklevel=5)

    def _lines(self, identifier: str) -> Iterator[tuple[Path, int, bytes]]:
        """Yields the file, number and text of each line of a question."""
        numbers = iter(self._places[identifier])
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            self._files[number].seek(start)
            for line in range(first, first + n_lines):
                yield self.paths[number], line, self._files[number].readline()

    def _question(self, identifier: str) -> SampledQuestion:
        samples: list[Sample] = []
        seen: dict[tuple[str, int, int], tuple[Path, int]] = {}
        for path, line, raw in self._lines(identifier):
            sample = _sample(raw, path, line)
            key = (sample["agent"], sample["round"], sample["index"])
            if key in seen:
                raise SamplesError(
                    f"{path}:{line}: question {identifier!r} has this agent, round and index at "
                    f"{':'.join(map(str, seen[key]))} already",
                    hint="Pass each file once, and give each response of an agent its own index",
                )
            if samples and sample["question"] != samples[0]["question"]:
                raise SamplesError(
                    f"{path}:{line}: another question has the id {identifier!r} already",
                    hint="Give every question an id of its own, across all files",
                )
            seen[key] = path, line
            samples.append(sample)
        ordered = cast("list[Sample]", in_canonical_order(samples))
        lists = sorted({tuple(sample["references"]) for sample in ordered})  # in an order that no agent decides
        return SampledQuestion(
            id=identifier,
            text=ordered[0]["question"],
            references=tuple(dict.fromkeys(reference for references in lists for reference in references)),
            responses=tuple(sample for sample in ordered if sample["error"] is None),
            failures=tuple(sample for sample in ordered if sample["error"] is not None),
        )


def _files_of(path: Path) -> list[Path]:
    """Returns a file, or the files of samples in a run's folder."""
    if not path.is_dir():
        return [path]
    if (path / SAMPLES).exists():
        return [path / SAMPLES]
    found = sorted(path.glob("*.parquet")) or sorted((path / PARTS).glob("*.parquet"))
    if not found:
        raise SamplesError(f"{path} holds no samples", hint=f"Pass files, or a folder that `sample` wrote: {SAMPLES}")
    return found


def _open(path: Path, unpacked: IO[bytes]) -> tuple[IO[bytes], int]:
    """Returns a file and where its lines start; those of a compressed file, or of a Parquet one, go to `unpacked`."""
    try:
        if path.suffix not in _UNPACK:
            return path.open("rb"), 0
        start = unpacked.seek(0, os.SEEK_END)
        unpacked.writelines(_UNPACK[path.suffix](path))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SamplesError(
            f"{path} cannot be read: {error}", hint="Check the path, and that the file is complete"
        ) from error
    return unpacked, start


def _lines_of_gzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as packed:
        for line in packed:
            yield line.rstrip(b"\n") + b"\n"  # the last one may not end


def _lines_of_parquet(path: Path) -> Iterator[bytes]:
    for row in rows_of(path):
        yield json.dumps(row, default=str).encode() + b"\n"  # for example a date in an unknown field


_UNPACK: Mapping[str, Callable[[Path], Iterator[bytes]]] = {".gz": _lines_of_gzip, ".parquet": _lines_of_parquet}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    # a number that a double holds exactly: figures are computed with it
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def _is_log_probability(value: Any) -> bool:
    # rounding puts a certain response a little above 0
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e18 <= value <= 1e-6


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


_LARGEST_COUNT = 2**53
_COUNT = "an integer of at least 0, and at most 2**53"
_REQUIRED = object()
# by field: whether a value is valid, what is, and the default; null is valid where it is the default
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str, Any]] = {
    "id": (_is_text, "a string", _REQUIRED),
    "agent": (lambda value: isinstance(value, str) and value != "", "a string that is not empty", _REQUIRED),
    "index": (_is_count, _COUNT, _REQUIRED),
    "text": (_is_text, "a string", _REQUIRED),
    "question": (_is_text, "a string", ""),
    "references": (lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of strings", []),
    "round": (_is_count, _COUNT, 0),
    "answer": (_is_text, "a string or null", None),
    "logprob": (_is_log_probability, "a finite number of at most 0, or null", None),
    "n_tokens": (_is_count, f"{_COUNT}, or null", None),
    "correct": (lambda value: isinstance(value, bool), "true, false or null", None),
    "error": (_is_text, "a string or null", None),
    "calls": (_is_list_of_objects, 'a list of objects with "name" and "args", or null', None),
    "tools": (_is_list_of_objects, "a list of JSON schemas with a name, or null", None),
}


@lru_cache(maxsize=1024)  # the lines of a file mostly have the same fields
def _nearest(field: str, others: frozenset[str]) -> str | None:
    return next(iter(get_close_matches(field, sorted(others), n=1, cutoff=_NEAR)), None)


def _show(value: Any) -> str:
    try:
        return repr(str(value)[:50])
    except ValueError:  # Python does not write thousands of digits
        return "a huge number"


def _sample(raw: bytes, path: Path, line: int, *, on_unknown: Callable[[str, str, str], None] | None = None) -> Sample:
    """Returns the sample of a line.

    Args:
        raw: The line.
        path: Its file, for messages.
        line: Its number, for messages.
        on_unknown: Called with each unknown field whose name is like that of a field that the line lacks, the place,
            and the name of that field.
    """
    try:
        record = parse_json(raw)
    except ValueError as error:
        raise SamplesError(
            f"{path}:{line}: this is not JSON: {error}", hint="Every line is one JSON object; it may have been cut off"
        ) from error
    if not isinstance(record, dict):
        raise SamplesError(
            f"{path}:{line}: this is not a JSON object", hint='Write every line as {"id": ..., "agent": ..., ...}'
        )
    absent = frozenset(_FIELDS.keys() - record.keys())
    for field, (is_valid, expected, default) in _FIELDS.items():
        if field not in record and default is not _REQUIRED:
            record[field] = default
        elif field not in record:
            near = _nearest(field, frozenset(record.keys() - _FIELDS.keys()))
            hint = f'Rename "{near}", or add it' if near else "Add it"
            raise SamplesError(f'{path}:{line}: "{field}" is missing', hint=f"{hint}; it is {expected}")
        elif not (is_valid(record[field]) or record[field] is default is None):
            raise SamplesError(
                f'{path}:{line}: "{field}" must be {expected}; got {_show(record[field])}',
                hint="Correct it, or omit the line",
            )
    if record["calls"] is not None:
        action = _action_of(record, f"{path}:{line}")
        record["answer"] = action if record["answer"] is None else record["answer"]
    for field in record.keys() - _FIELDS.keys() if absent and on_unknown else ():
        if on_unknown is not None and (near := _nearest(field, absent)):
            on_unknown(field, f"{path}:{line}", near)
    return cast("Sample", record)


def _action_of(record: Mapping[str, Any], place: str) -> str:
    """Returns the canonical form of a line's calls."""
    try:
        return canonical_action(record["calls"], tools=record["tools"])
    except (TypeError, ValueError) as error:
        raise SamplesError(
            f'{place}: "calls" and "tools" must be readable as an action; {error}',
            hint='A proposal that nothing could run is a failure: set "calls" to null, and "error" to what was wrong',
        ) from error
