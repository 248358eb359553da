"""Owns reading samples: saved responses, one a record, grouped by question whatever order the records are in.

`formats` says how a record of each tool becomes samples, `line` checks the fields of each sample, and DuckDB sorts the
samples by question.
"""

import glob
import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents import _ring
from coe_agents._removed import refuses_removed
from coe_agents.checks import several
from coe_agents.clustering import Clusterer
from coe_agents.errors import SamplesError
from coe_agents.evaluation.datasets.question import Question
from coe_agents.evaluation.datasets.records import file_records
from coe_agents.evaluation.datasets.sources import iter_questions
from coe_agents.evaluation.frames import import_pandas, to_pandas
from coe_agents.evaluation.origin import Origin, origin_of
from coe_agents.evaluation.samples.formats import (
    OWN,
    PAGE,
    Source,
    inspect_records,
    inspect_samples,
    is_inspect_log,
)
from coe_agents.evaluation.samples.line import (
    find_faults,
    missing_fields,
    parse_object,
    to_sample,
    valid_values,
)
from coe_agents.evaluation.samples.store import SAMPLES
from coe_agents.evaluation.tables import (
    FORM_NAMES,
    RecordFile,
    Row,
    RowTable,
    find_form,
    read_records,
)
from coe_agents.measurement.weighting import Weighting
from coe_agents.text import for_screen, quantity
from coe_agents.types import JsonObject, Sample, SampledQuestion

MOST_FAULTS = 20
"""Faulty records that are named at most."""
_MOST_NAMED = 5


class Samples:
    """The samples of one or more files, read question by question.

    Every record is checked when they are opened; iterating then reads one question at a time, by id. The records are
    in temporary files, so memory does not grow with the questions. These may be spread over records and files (an agent
    a file, say), and the order of records changes nothing. The temporary files end with the
    block of a `with`, else when nothing refers to the object.

    Args:
        paths: Files of samples: JSON Lines, a JSON array, CSV or Parquet; compressed where a name ends in ".gz". A
            folder means the samples of the run in it, and a pattern such as ``runs/*.jsonl`` the files that it matches.
            Logs of inspect_ai, samples of lm-evaluation-harness, batch output of OpenAI and trajectories of tau-bench
            are recognised by their own fields.
        columns: By a field of ours, what the files call it.
        questions: A file of questions, for responses that hold none, such as batch output; both have the same ids.

    Raises:
        SamplesError: A file cannot be read, records are malformed (up to 20 are listed), or the files hold no record.

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

    @refuses_removed
    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        columns: Mapping[str, str] | None = None,
        questions: str | Path | None = None,
    ) -> None:
        self.paths = files_of([paths] if isinstance(paths, str | Path) else paths)
        self._columns = columns or {}
        self._questions = None if questions is None else _read_questions(Path(questions))
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

    def __repr__(self) -> str:
        said = f"{quantity(self._table.n_rows, 'record')} of {quantity(len(self), 'question')}"
        names: Sequence[str] = ()
        with suppress(SamplesError):  # the settings of the run cannot be read
            names = [*self.origin.agents]
        if len(names) > _MOST_NAMED:
            said += f" by {len(names)} agents"
        elif names:
            said += f" by {', '.join(names)}"
        place = f"{len(self.paths)} files"
        if len(self.paths) == 1:
            place = str(self.paths[0])
        return f"<Samples: {for_screen(f'{said}, in {place}')}>"

    def __iter__(self) -> Iterator[SampledQuestion]:
        for _, rows in self._table:
            yield _read_question(self._files, rows)

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

        Needed are "id" or "question", and "text"; the other columns are the fields of a line of samples, read as those
        of a table are. Without an "agent" all responses are of one; rows of one question and agent are numbered in
        their order, unless there is an "index".

        Args:
            frame: Of pandas, or of a library whose frames have `to_pandas`.
            columns: Our name of a column, and the name that it has: `{"text": "response"}`.

        Raises:
            SamplesError: A row is no response, or a column does not exist.
        """
        rows = to_pandas(frame)
        named = {"text": "text", **(columns or {})}
        if "id" not in rows.columns:
            named.setdefault("id", named.get("question", "question"))
        folder = tempfile.mkdtemp(prefix="coe-agents-")
        path = Path(folder, "frame.json")
        try:
            rows.to_json(path, orient="records")
            samples = cls([path], columns=named)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(samples, shutil.rmtree, folder, ignore_errors=True)
        return samples

    def parts(self, size: int) -> "Iterator[SamplesPart]":
        """Yields the questions in parts of `size`, in order, for other processes to read."""
        groups = (rows for _, rows in self._table)
        while part := tuple(islice(groups, size)):
            yield SamplesPart(self._files, part)

    def _load(self, number: int) -> list[str]:
        """Puts the samples of a file into the table, and returns what is wrong with its faulty records."""
        file = self._files[number]
        faults: dict[int, str] = {}
        records: Iterable[tuple[int, str | bytes | JsonObject]]
        try:
            if is_inspect_log(file):
                records = enumerate(inspect_records(file.path), start=1)
                reading = _Reading(number, inspect_samples)
            else:
                source = self._recognise(file)
                is_numbered = source.form is OWN and not source.is_loose
                records = read_records(file)
                reading = _Reading(number, source.to_samples, is_numbered)
            self._table.add(_read_samples(records, reading, faults))
        except OSError as error:
            said = str(error).split("\nPossible", 1)[0].splitlines()
            raise SamplesError(f"{file.path} cannot be read: {' '.join(said)}") from error
        return [f"{file.place(record)}: {fault}" for record, fault in faults.items()]

    def _recognise(self, file: RecordFile) -> Source:
        """Returns what is known of a file by its first record; a SamplesError if it is of no known form."""
        if file.form == "document":
            raise _unrecognised(file, 1, {}, missing_fields({}))
        number, first = _first_object(file)
        is_loose = file.form in ("csv", "parquet") or bool(self._columns)
        source = Source(file.path, first, is_loose, self._columns, self._questions)
        if source.form is not OWN or not first:
            return source

        try:
            (sample,) = source.to_samples(dict(first))
        except ValueError as error:
            raise SamplesError(f"{file.path}: {error}", hint="Correct the names") from error
        missing = missing_fields(sample, is_numbered=not is_loose)
        # where other lines have them, those that lack them are named
        if missing and (is_loose or not _has_any(file, missing)):
            raise _unrecognised(file, number, first, missing)
        return source


def _first_object(file: RecordFile) -> tuple[int, JsonObject]:
    """Returns the number of the first record that is a JSON object, and the record; {} without one."""
    for number, text in read_records(file):
        with suppress(ValueError):
            return number, parse_object(text)
    return 1, {}


def _has_any(file: RecordFile, fields: Collection[str]) -> bool:
    """Returns whether a record of a file has one of the fields, or is no JSON object."""
    for _, text in read_records(file):
        try:
            record = parse_object(text)
        except ValueError:
            return True
        if not record.keys().isdisjoint(fields):
            return True
    return False


class _Reading(NamedTuple):
    """How the records of a file become samples, and whether these have an index."""

    number: int
    to_samples: Callable[[JsonObject], Iterable[JsonObject]]
    is_numbered: bool = False


def _read_samples(
    records: Iterable[tuple[int, str | bytes | JsonObject]],
    reading: _Reading,
    faults: dict[int, str],
) -> Iterator[Row]:
    """Yields the samples of a file; notes in `faults` what is wrong with faulty records, up to `MOST_FAULTS`."""
    for record, content in records:
        text = _decode(content) if isinstance(content, bytes) else content
        samples: list[JsonObject] = []
        wrong: list[str] = []
        try:
            parsed = text if isinstance(text, dict) else parse_object(text)
            samples += reading.to_samples(parsed)
        except SamplesError:  # of the whole file
            raise
        except ValueError as error:
            wrong.append(str(error))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            wrong.append(f"it is not as its tool writes it: {type(error).__name__}: {error}")

        for sample in samples:
            wrong += find_faults(sample, is_numbered=reading.is_numbered)
        if wrong:
            faults[record] = "; ".join(wrong)
            if len(faults) == MOST_FAULTS:
                return
            continue
        for sample in samples:
            # SQL has no text with an unpaired surrogate
            key = sample["id"].encode("utf-8", "surrogatepass")
            if sample is parsed and isinstance(text, str):
                kept = text
            else:
                kept = json.dumps(sample)
            yield key, reading.number, record, kept


def _decode(line: bytes) -> str | bytes:
    """Returns a line of UTF-8 as a text, which is parsed sooner; a line that begins otherwise stays as it is."""
    begins_as_utf_8 = line[:1] == b"{" and line[1:2] != b"\0"
    if not begins_as_utf_8:
        return line
    with suppress(UnicodeDecodeError):
        return line.decode()
    return line


def _unrecognised(
    file: RecordFile, number: int, first: JsonObject, missing: Sequence[str]
) -> SamplesError:
    """Returns the error of a file whose first record, of this number, lacks fields."""
    place = file.place(number)
    described = "; ".join(f'"{name}" ({valid_values(name)})' for name in missing)
    fields = f" with the fields {', '.join(first)[:300]}" if first else ""
    return SamplesError(
        f"{place}: this looks like {FORM_NAMES[file.form]}{fields}; samples need {described}, missing here",
        hint='If they have other names, say so (ours=theirs): --columns text=response,id=qid, or "columns" in Python. '
        f"{PAGE} lists all that is read",
    )


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
        samples = (*question.responses, *question.failures)
        if any("seen_probability" in sample for sample in samples):
            case = f"the case {question.id[:50]!r} was seen with a probability of its own"
            hint = "For samples of harvest: calibrate --current POLICY, or, of a gate that only observed, advise"
            raise SamplesError(f"{case}, and its errors cannot be counted like others", hint=hint)
        yield question


def files_of(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the files of samples of some paths: of a file, of the folder of a run, or of a pattern."""
    where = "files of samples"
    advice = "Pass rows in a data frame: Samples.from_frame(frame)"
    several(paths, where, of="paths", advice=advice, kind=Iterable)
    files: list[Path] = []
    for named in paths:
        if not isinstance(named, str | PathLike):
            raise TypeError(f"{where} must be paths; got {type(named).__name__}. {advice}")
        path = Path(named)
        if path.is_dir():
            if not (path / SAMPLES).exists():
                hint = f"Pass files, or a folder that `sample` wrote: {SAMPLES}"
                raise SamplesError(f"{path} holds no samples", hint=hint)
            files.append(path / SAMPLES)
        elif path.exists():
            files.append(path)
        else:
            matching = sorted(glob.glob(str(named), recursive=True))
            # one that matches nothing is named when it is opened
            files += [Path(match) for match in matching] or [path]
    return files


def _find_file(path: Path) -> RecordFile:
    if path.suffix == ".toml":
        hint = "A configuration is named by its option: --config FILE, or --policies ONE,TWO of compare"
        must = "files of samples must hold responses"
        raise SamplesError(f"{must}; got {path}, a file of settings by its name", hint=hint)
    try:
        return RecordFile(path, find_form(path))
    except (OSError, ValueError) as error:
        hint = "Check the path, and that the file is complete"
        raise SamplesError(f"{path} cannot be read: {error}", hint=hint) from error


def _read_question(files: Sequence[RecordFile], rows: Sequence[Row]) -> SampledQuestion:
    """Returns a question; a SamplesError if two of its records are of the same response, or ask something else."""

    def place_of(row: Row) -> str:
        _, file, record, _ = row
        return files[file].place(record)

    texts = ",".join([text for *_, text in rows])
    records: list[JsonObject] = json.loads(f"[{texts}]")
    _number_responses(records)
    samples = [to_sample(record) for record in records]
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
    references: dict[str, None] = {}
    # in an order that no agent decides
    for accepted in sorted({tuple(sample["references"]) for sample in ordered}):
        references |= dict.fromkeys(accepted)
    return SampledQuestion(
        id=ordered[0]["id"],
        text=ordered[0]["question"],
        references=tuple(references),
        responses=tuple([sample for sample in ordered if sample["error"] is None]),
        failures=tuple([sample for sample in ordered if sample["error"] is not None]),
    )


def _read_questions(path: Path) -> dict[str, Question]:
    named: dict[str, Question] = {}
    for question in iter_questions(str(path), file_records(path), {}):
        named[question.id] = question
    return named


def _number_responses(records: Iterable[JsonObject]) -> None:
    """Numbers the responses of each agent that have no index."""
    n_of = Counter[object]()
    for record in records:
        if "index" not in record:
            unit = record["agent"], record.get("round", 0)
            record["index"] = n_of[unit]
            n_of[unit] += 1
