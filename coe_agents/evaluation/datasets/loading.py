"""Owns the step from a dataset's name or path to its questions, and the `datasets` library that loads some."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets.files import file_records
from coe_agents.evaluation.datasets.on_disk import QuestionsOnDisk, on_disk
from coe_agents.evaluation.datasets.question import ConflictError, Kind, Place, Question, merge
from coe_agents.evaluation.datasets.records import MalformedError, to_question

_DEFAULT_SPLIT = "validation"


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


def open_questions(source: str, *, split: str | None = None, seed: int) -> QuestionsOnDisk:
    """Returns the questions of a dataset, each once; a malformed record is an error, never skipped.

    They stay on the disk, so that memory does not grow with the dataset. A file of JSON Lines is read line by line, and
    a dataset of the hub row by row; other files are read whole.

    Args:
        source: A name of `PUBLISHED`, which is loaded from the hub; a folder or Parquet file, which the `datasets`
            library reads as it does the hub; or a `.jsonl`, `.json` or `.csv` file, compressed or not.
        split: Of a dataset; "validation" unless given. A single file has none.
        seed: Draws the order of the questions from their ids alone, so that the first few are a sample.

    Raises:
        ConfigurationError: If there is no such dataset or file, or a split is given with a file.
        DatasetError: If it cannot be read; the message names file and line, or the row.
        ImportError: If `datasets` is needed and not installed.
    """
    records = _records(source, split)
    try:
        questions = on_disk((question for _, question in records), seed=seed)
    except ConflictError:
        _name_conflict(_records(source, split))
        raise
    return QuestionsOnDisk(records.source, questions, records.n, seed)


def _records(source: str, split: str | None) -> "_Records":
    path = Path(source)
    published = PUBLISHED.get(source) or (Published(source) if path.is_dir() else None)
    if published is not None:
        chosen = split or _DEFAULT_SPLIT
        return _Records(f"{published}, {chosen}", hub_records(published, chosen))
    if not path.is_file():
        names = ", ".join([*PUBLISHED, "tinyworld"])
        raise ConfigurationError(f'"{source}" is neither a dataset nor a file', hint=f"The datasets are {names}")
    if split is not None:
        raise ConfigurationError(
            f'"--split" must be omitted for a file; got "{split}" for {path}', hint='Omit "--split"'
        )
    if path.suffix == ".parquet":
        return _Records(source, hub_records(Published(source), "train"))
    return _Records(source, file_records(path))


class _Records:
    """The questions of one dataset's records, read once; afterwards it says how many they were.

    Raises:
        DatasetError: While they are read, if one is malformed, they are of different kinds, or there is none.
    """

    def __init__(self, source: str, records: Iterable[tuple[Place, Any]]) -> None:
        self.source, self._records = source, records
        self.n = 0

    def __iter__(self) -> Iterator[tuple[Place, Question]]:
        first: Kind | None = None
        for place, record in self._records:
            try:
                kind, question = to_question(record)
            except MalformedError as error:
                raise DatasetError(f"{place()}: {error}", hint="Correct the record, or remove it") from error
            first = first or kind
            self.n += 1
            if kind != first:
                raise DatasetError(
                    f'{place()}: this record is of the kind "{kind}", those before it are "{first}"',
                    hint="Check the names of its fields, or keep one kind to a file",
                )
            yield place, question
        if not self.n:
            raise DatasetError(f"{self.source} holds no record", hint="Check that the file is complete")


def _name_conflict(records: Iterable[tuple[Place, Question]]) -> None:
    """Raises a DatasetError where two questions of one id differ, at the place of the second."""
    found: dict[str, Question] = {}
    for place, question in records:
        try:
            found[question.id] = merge([found.get(question.id, question), question])
        except ConflictError as error:
            raise DatasetError(
                f"{place()}: another question has the id {question.id!r} already",
                hint="Give every question an id of its own",
            ) from error


def hub_records(published: Published, split: str) -> Iterator[tuple[Place, Any]]:
    """Yields the records of a split, and the number of each; `published.path` may be a folder or a Parquet file.

    Raises:
        DatasetError: If the hub cannot be reached, or has no such dataset, configuration or split.
        ImportError: If `datasets` is not installed.
    """
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise ImportError(f'{published} needs datasets; pip install "coe-agents[evaluation]"') from error
    name = f"{published}, {split}"
    try:
        if published.path.endswith(".parquet"):
            rows = datasets.load_dataset("parquet", data_files={split: published.path}, split=split)
        else:
            rows = datasets.load_dataset(published.path, published.config, split=split)
    except Exception as error:  # errors of `datasets`, the hub's client and pyarrow have no common base
        raise DatasetError(
            f"{name} cannot be loaded: {type(error).__name__}: {error}",
            hint="Check the split and the connection, or pass the dataset's official file",
            retryable=True,
        ) from error
    for number, row in enumerate(rows):
        yield partial("{}: row {}".format, name, number), row
