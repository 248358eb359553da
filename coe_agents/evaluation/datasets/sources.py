"""Owns the step from a dataset's name or path to its questions on the disk, and the library that loads some."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets.question import (
    ConflictError,
    Kind,
    Question,
    draw_key,
    from_plain,
    merge,
)
from coe_agents.evaluation.datasets.records import (
    MalformedError,
    PlacedRecord,
    by_our_names,
    file_records,
    to_question,
)
from coe_agents.evaluation.tables import RowTable


class Published(NamedTuple):
    """A dataset on the hub: its name there, and its configuration unless it has but one."""

    path: str
    config: str | None = None

    def __str__(self) -> str:
        return self.path if self.config is None else f"{self.path} ({self.config})"


PUBLISHED = {
    "triviaqa": Published("mandarjoshi/trivia_qa", "rc.nocontext"),
    "squad": Published("rajpurkar/squad"),
    "squad_v2": Published("rajpurkar/squad_v2"),
    "nq_open": Published("google-research-datasets/nq_open"),
    "truthfulqa": Published("truthfulqa/truthful_qa", "generation"),
}


class DrawnQuestions(Sized, Iterable[Question]):
    """Questions on the disk, each id once, in the order that a seed draws (`draw_key`), or the first of them."""

    def __init__(self, table: RowTable, n_questions: int) -> None:
        self._table = table
        self._n = n_questions

    @property
    def n_records(self) -> int:
        """How many records there were: more than questions where some repeat one, as in TriviaQA on the hub."""
        return self._table.n_rows

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Question]:
        for _, rows in islice(self._table, self._n):
            yield merge([from_plain(json.loads(text)) for *_, text in rows])

    def first(self, n: int | None) -> "DrawnQuestions":
        return self if n is None or n >= self._n else DrawnQuestions(self._table, n)


@dataclass(frozen=True, slots=True)
class QuestionsOnDisk:
    """The questions of a dataset, each once, on the disk, in an order that a seed draws.

    Attributes:
        source: The file, or the dataset's name on the hub with its configuration and split.
        questions: In the order in which they are asked.
    """

    source: str
    questions: DrawnQuestions


def on_disk(questions: Iterable[Question], *, seed: int) -> DrawnQuestions:
    """Returns questions on the disk; a ConflictError if two of one id differ in more than their references."""
    table = RowTable()
    table.add(
        (draw_key(seed, question.id), 0, number, json.dumps(asdict(question)))
        for number, question in enumerate(questions)
    )
    table.sort()
    drawn = DrawnQuestions(table, len(table))
    for _ in drawn:
        pass  # questions that differ are found before any is asked
    return drawn


def open_questions(
    source: str, *, split: str | None = None, seed: int, columns: Mapping[str, str] | None = None
) -> QuestionsOnDisk:
    """Returns the questions of a dataset, each once; a malformed record is an error, never skipped.

    They stay on the disk, so that memory does not grow with the dataset. A document, as SQuAD publishes one, is read
    whole; other files, and datasets of the hub, are read record by record.

    Args:
        source: A name of `PUBLISHED`, which is loaded from the hub; a folder, which the `datasets` library reads as it
            does the hub; or a `.jsonl`, `.json`, `.csv`, `.tsv` or `.parquet` file, compressed or not.
        split: Of a dataset; "validation" unless given. A single file has none.
        seed: Draws the order of the questions from their ids alone, so that the first few are a sample.

        columns: By a field of ours, what the records call it.

    Raises:
        ConfigurationError: If there is no such dataset or file, or a split is given with a file.
        DatasetError: If it cannot be read; the message names file and line, or the record.
        ImportError: If `datasets` is needed and not installed.
    """
    name, records = _records(source, split)
    try:
        ordered = on_disk(iter_questions(name, records, columns or {}), seed=seed)
    except ConflictError as error:
        raise DatasetError(
            f"{name}: {error}", hint="Give every question an id of its own"
        ) from error
    return QuestionsOnDisk(name, ordered)


def _records(source: str, split: str | None) -> tuple[str, Iterator[PlacedRecord]]:
    path = Path(source)
    published = PUBLISHED.get(source)
    if published is None and path.is_dir():
        published = Published(source)
    if published is not None:
        chosen = split or "validation"
        return f"{published}, {chosen}", _hub_records(published, chosen)
    if not path.is_file():
        names = ", ".join([*PUBLISHED, "tinyworld"])
        raise ConfigurationError(
            f'"{source}" is neither a dataset nor a file', hint=f"The datasets are {names}"
        )
    if split is not None:
        message = f'"split" must be omitted for a file; got "{split}" for {path}'
        raise ConfigurationError(message, hint='Omit "split"')
    return source, file_records(path)


def iter_questions(
    name: str, records: Iterable[PlacedRecord], columns: Mapping[str, str]
) -> Iterator[Question]:
    """Yields the questions of records, all of one kind; a DatasetError names a record that holds no question."""
    kind_before: Kind | None = None
    for place, record in records:
        try:
            kind, question = to_question(by_our_names(record, columns))
        except MalformedError as error:
            raise DatasetError(
                f"{place}: {error}", hint="Correct the record, or remove it"
            ) from error
        kind_before = kind_before or kind
        if kind != kind_before:
            raise DatasetError(
                f'{place}: this record is of the kind "{kind}", those before it are "{kind_before}"',
                hint="Check the names of its fields, or keep one kind to a file",
            )
        yield question
    if kind_before is None:
        raise DatasetError(f"{name} holds no record", hint="Check that the file is complete")


def _hub_records(published: Published, split: str) -> Iterator[PlacedRecord]:
    """Yields the records of a split, and the number of each; `published.path` may be a folder."""
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ImportError(
            f'{published} needs datasets; pip install "coe-agents[evaluation]"'
        ) from error
    name = f"{published}, {split}"
    try:
        rows = datasets.load_dataset(published.path, published.config, split=split)
    # errors of `datasets`, the hub's client and pyarrow have no common base
    except Exception as error:
        raise DatasetError(
            f"{name} cannot be loaded: {type(error).__name__}: {error}",
            hint="Check the split and the connection, or pass the dataset's official file",
            retryable=True,
        ) from error
    for number, row in enumerate(rows):
        yield f"{name}: row {number}", row
