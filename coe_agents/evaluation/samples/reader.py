"""Owns reading samples: saved responses, one a line, grouped by question whatever order the lines are in."""

import gzip
import json
import os
import re
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from coe_agents.actions import canonical_action
from coe_agents.documents import parse_json
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.index import Index, Runs
from coe_agents.evaluation.samples.parquet import PARTS, rows_of
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.types import Response

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
    question at a time, by id. Memory holds a few numbers for each question; beyond 20,000 questions, these are sorted
    in temporary files. Questions may be spread over lines and files (an agent a file, say), and the order of lines
    changes nothing. Use it as a context manager: a compressed file, or a Parquet one, is unpacked to a temporary one
    until then.

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
        self._files: list[IO[bytes]] = []
        with ExitStack() as stack:
            unpacked = stack.enter_context(tempfile.TemporaryFile())  # one for all, as open files are not many
            self._places = Index(stack)
            self._faults: list[str] = []
            self._noticed: set[str] = set()
            self._names: tuple[str, ...] = ()
            self._usual: re.Pattern[str] | None = None
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
        for identifier, runs in self._places:
            yield self._question(identifier, runs)

    def _index(self, number: int, path: Path, file: IO[bytes], start: int) -> None:
        """Notes each run of lines of one question: file, first line, start, how many lines."""
        file.seek(start)
        before, run = None, [number, 0, 0, 0]
        for line, raw in enumerate(file, start=1):
            identifier = self._identifier(raw, path, line) if raw.strip() else None
            if len(self._faults) == _MOST_FAULTS:
                raise SamplesError("\n".join(self._faults), hint=f"These are the first {_MOST_FAULTS} faulty lines")
            if identifier is not None and identifier == before:
                run[-1] += 1
            else:
                if before is not None:
                    self._places.add(before, run)
                before, run = identifier, [number, line, start, 1]
            start += len(raw)
        if before is not None:
            self._places.add(before, run)

    def _identifier(self, raw: bytes, path: Path, line: int) -> str | None:
        """Returns the id of a line's question; None if the line is faulty, which is noted."""
        if self._usual is not None and (found := _match(self._usual, raw)) is not None:
            return found[1]
        try:
            record = _object(raw, path, line)
            names = tuple(record)
            sample = _sample(record, path, line, on_unknown=self._notice)
        except SamplesError as error:
            self._faults.append(str(error))
            return None
        if names == self._names:  # not at once: a pattern takes longer than a line
            self._usual = usual_line(names)
        self._names = names
        return sample["id"]

    def _notice(self, field: str, place: str, near: str) -> None:
        """Warns of a field that is probably misspelt, once for all lines."""
        if field not in self._noticed:
            self._noticed.add(field)
            warnings.warn(f'{place}: the field "{field}" is not read. Did you mean "{near}"?', stacklevel=5)

    def _lines(self, runs: Runs) -> Iterator[tuple[Path, int, bytes]]:
        """Yields the file, number and text of each line of a question."""
        numbers = iter(runs)
        for number, first, start, n_lines in zip(numbers, numbers, numbers, numbers, strict=True):
            file, path = self._files[number], self.paths[number]
            file.seek(start)
            for line in range(first, first + n_lines):
                yield path, line, file.readline()

    def _question(self, identifier: str, runs: Runs) -> SampledQuestion:
        samples = [_sample(_object(raw, path, line), path, line) for path, line, raw in self._lines(runs)]
        keys = [(sample["agent"], sample["round"], sample["index"]) for sample in samples]
        texts = {sample["question"] for sample in samples}
        if len(set(keys)) < len(keys) or len(texts) > 1:
            raise self._conflict(identifier, runs, keys, [sample["question"] for sample in samples])
        ordered = [samples[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]  # the canonical order
        lists = sorted({tuple(sample["references"]) for sample in ordered})  # in an order that no agent decides
        return SampledQuestion(
            id=identifier,
            text=ordered[0]["question"],
            references=tuple(dict.fromkeys(reference for references in lists for reference in references)),
            responses=tuple([sample for sample in ordered if sample["error"] is None]),
            failures=tuple([sample for sample in ordered if sample["error"] is not None]),
        )

    def _conflict(
        self, identifier: str, runs: Runs, keys: Sequence[tuple[str, int, int]], texts: Sequence[str]
    ) -> SamplesError:
        """Returns the error of the first line that repeats another one's key, or asks something else."""
        seen: dict[tuple[str, int, int], tuple[Path, int]] = {}
        for (path, line, _), key, text in zip(self._lines(runs), keys, texts, strict=True):
            if key in seen:
                return SamplesError(
                    f"{path}:{line}: question {identifier!r} has this agent, round and index at "
                    f"{':'.join(map(str, seen[key]))} already",
                    hint="Pass each file once, and give each response of an agent its own index",
                )
            if text != texts[0]:
                break
            seen[key] = path, line
        return SamplesError(
            f"{path}:{line}: another question has the id {identifier!r} already",
            hint="Give every question an id of its own, across all files",
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


_STRINGS = frozenset({str})
_STRING_OR_NULL = frozenset({str, type(None)})
_FLAG_OR_NULL = frozenset({bool, type(None)})


def _nearest(field: str, others: frozenset[str]) -> str | None:
    return next(iter(get_close_matches(field, sorted(others), n=1, cutoff=_NEAR)), None)


def _show(value: Any) -> str:
    try:
        return repr(str(value)[:50])
    except ValueError:  # Python does not write thousands of digits
        return "a huge number"


def _object(raw: bytes, path: Path, line: int) -> dict[str, Any]:
    """Returns the JSON object of a line; the file and the number of the line are for messages."""
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
    return record


def _sample(
    record: dict[str, Any], path: Path, line: int, *, on_unknown: Callable[[str, str, str], None] | None = None
) -> Sample:
    """Returns the sample of a line.

    Args:
        record: The object of the line, to which the fields that it lacks are added.
        path: Its file, for messages.
        line: Its number, for messages.
        on_unknown: Called with each unknown field whose name is like that of a field that the line lacks, the place,
            and the name of that field.
    """
    known = _fields_of(tuple(record))
    if not known.is_complete:
        _check(record, path, line)
    record.update(known.defaults)
    if not _is_usual(record):
        _check(record, path, line)
        if record["calls"] is not None:
            action = _action_of(record, f"{path}:{line}")
            record["answer"] = action if record["answer"] is None else record["answer"]
    if on_unknown is not None:
        for field, near in known.misspelt:
            on_unknown(field, f"{path}:{line}", near)
    return cast("Sample", record)


_TEXT = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_WHOLE = r"(?:0|[1-9][0-9]{0,14})"
_NUMBER = rf"-?{_WHOLE}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_PATTERNS: Mapping[str, str] = {
    "id": r'"([^"\\\x00-\x1f]*+)"',
    "agent": rf'(?!""){_TEXT}',
    "index": _WHOLE,
    "text": _TEXT,
    "question": _TEXT,
    "references": rf"\[(?:{_TEXT}(?:, ?{_TEXT})*+)?\]",
    "round": _WHOLE,
    "answer": rf"(?:null|{_TEXT})",
    "logprob": rf"(?:null|-{_WHOLE}(?:\.[0-9]++)?(?:e-[0-9]++)?|0(?:\.0)?)",
    "n_tokens": rf"(?:null|{_WHOLE})",
    "correct": "(?:null|true|false)",
    "error": rf"(?:null|{_TEXT})",
    "calls": "null",
    "tools": "null",
}
"""Usual values of each field, all valid as `_FIELDS` has it; an id has no escapes, so that the match is its value."""


@lru_cache(maxsize=64)
def usual_line(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of lines that have these fields in this order, and are valid; its group is the id.

    It takes a quarter of the time of reading the line as JSON. A line that it does not match may be valid, too.

    Args:
        names: All required fields, and others.
    """
    other = rf"(?:{_TEXT}|{_NUMBER}|null|true|false)"
    fields = [rf"{re.escape(json.dumps(name))}: ?{_PATTERNS.get(name, other)}" for name in names]
    return re.compile(rf"\{{{', ?'.join(fields)}\}}[ \t\r\n]*")


def _match(pattern: re.Pattern[str], raw: bytes) -> re.Match[str] | None:
    try:
        return pattern.fullmatch(raw.decode())
    except UnicodeDecodeError:
        return None


class _Fields(NamedTuple):
    """What the names of a line's fields tell; the lines of a file mostly have the same.

    Attributes:
        is_complete: Whether it has all required fields.
        defaults: The values of the others that it lacks.
        misspelt: Each unknown field whose name is like that of a field that it lacks, and the name of that field.
    """

    is_complete: bool
    defaults: dict[str, Any]
    misspelt: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def _fields_of(names: tuple[str, ...]) -> _Fields:
    absent = frozenset(_FIELDS.keys() - set(names))
    alike = [(name, _nearest(name, absent)) for name in names if absent and name not in _FIELDS]
    defaults = {field: default for field, (_, _, default) in _FIELDS.items() if field in absent}
    return _Fields(
        all(default is not _REQUIRED for default in defaults.values()),
        defaults,
        tuple((name, near) for name, near in alike if near is not None),
    )


def _is_usual(record: Mapping[str, Any]) -> bool:
    """Whether every field is valid as `_FIELDS` has it, and there are no tool calls, as in most lines."""
    index, number, n_tokens, logprob = record["index"], record["round"], record["n_tokens"], record["logprob"]
    return (
        type(record["id"]) is type(record["agent"]) is type(record["text"]) is type(record["question"]) is str
        and record["agent"] != ""
        and type(index) is type(number) is int
        and 0 <= index <= _LARGEST_COUNT
        and 0 <= number <= _LARGEST_COUNT
        and type(record["references"]) is list
        and _STRINGS.issuperset(map(type, record["references"]))
        and type(record["answer"]) in _STRING_OR_NULL
        and (logprob is None or (type(logprob) is float and -1e18 <= logprob <= 1e-6))
        and (n_tokens is None or (type(n_tokens) is int and 0 <= n_tokens <= _LARGEST_COUNT))
        and type(record["correct"]) in _FLAG_OR_NULL
        and type(record["error"]) in _STRING_OR_NULL
        and record["calls"] is None
        and record["tools"] is None
    )


def _check(record: Mapping[str, Any], path: Path, line: int) -> None:
    """Refuses a line that lacks a required field, or has one that is not valid."""
    for field, (is_valid, expected, default) in _FIELDS.items():
        if field not in record and default is not _REQUIRED:
            continue
        if field not in record:
            near = _nearest(field, frozenset(record.keys() - _FIELDS.keys()))
            hint = f'Rename "{near}", or add it' if near else "Add it"
            raise SamplesError(f'{path}:{line}: "{field}" is missing', hint=f"{hint}; it is {expected}")
        if not (is_valid(record[field]) or record[field] is default is None):
            raise SamplesError(
                f'{path}:{line}: "{field}" must be {expected}; got {_show(record[field])}',
                hint="Correct it, or omit the line",
            )


def _action_of(record: Mapping[str, Any], place: str) -> str:
    """Returns the canonical form of a line's calls."""
    try:
        return canonical_action(record["calls"], tools=record["tools"])
    except (TypeError, ValueError) as error:
        raise SamplesError(
            f'{place}: "calls" and "tools" must be readable as an action; {error}',
            hint='A proposal that nothing could run is a failure: set "calls" to null, and "error" to what was wrong',
        ) from error
