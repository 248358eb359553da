"""Owns the step from a dataset's name or path to its questions, and the `datasets` library that loads some."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets.files import file_records
from coe_agents.evaluation.datasets.on_disk import QuestionsOnDisk, on_disk
from coe_agents.evaluation.datasets.question import Kind, Place, Question
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

    They are on the disk, so memory does not grow with the dataset: a file of JSON Lines is read line by line, and a
    dataset of the hub row by row; other files are read whole. They are in an order that the seed draws from their ids
    alone, so that the first few are a sample. Those that repeat an earlier one give it their references.

    Args:
        source: A name of `PUBLISHED`, which is loaded from the hub; a folder or Parquet file, which the `datasets`
            library reads as it does the hub; or a `.jsonl`, `.json` or `.csv` file, compressed or not.
        split: Of a dataset; "validation" unless given. A single file has none.
        seed: Draws the order.

    Raises:
        ConfigurationError: If there is no such dataset or file, or a split is given with a file.
        DatasetError: If it cannot be read, is empty, has records of different kinds, or different questions of one id;
            the message names file and line, or the row, where one is at fault.
        ImportError: If `datasets` is needed and not installed.
    """
    name, records = _records(source, split)
    kind: Kind | None = None
    n_records = 0

    def questions() -> Iterator[Question]:
        nonlocal kind, n_records
        for place, record in records:
            try:
                found, question = to_question(record)
            except MalformedError as error:
                raise DatasetError(f"{place()}: {error}", hint="Correct the record, or remove it") from error
            kind = kind or found
            if found != kind:
                raise DatasetError(
                    f'{place()}: this record is of the kind "{found}", those before it are "{kind}"',
                    hint="Check the names of its fields, or keep one kind to a file",
                )
            n_records += 1
            yield question

    kept = on_disk(questions(), seed=seed)
    if kind is None:
        raise DatasetError(f"{name} holds no record", hint="Check that the file is complete")
    return QuestionsOnDisk(kind, name, kept, n_records)


def is_known(source: str) -> bool:
    """Whether `source` names a published dataset, a file or a folder."""
    return source in PUBLISHED or Path(source).is_dir() or Path(source).is_file()


def unknown_dataset(source: str, *others: str) -> ConfigurationError:
    """Returns the error for a `source` that is not known; it names the published datasets and `others`."""
    names = ", ".join([*PUBLISHED, *others])
    return ConfigurationError(f'"{source}" is neither a dataset nor a file', hint=f"The datasets are {names}")


def _records(source: str, split: str | None) -> tuple[str, Iterator[tuple[Place, Any]]]:
    """Returns what a dataset is called, and its records."""
    path = Path(source)
    published = PUBLISHED.get(source) or (Published(source) if path.is_dir() else None)
    if published is not None:
        chosen = split or _DEFAULT_SPLIT
        return f"{published}, {chosen}", hub_records(published, chosen)
    if not path.is_file():
        raise unknown_dataset(source, "tinyworld")
    if split is not None:
        raise ConfigurationError(
            f'"--split" must be omitted for a file; got "{split}" for {path}', hint='Omit "--split"'
        )
    return source, hub_records(Published(source), "train") if path.suffix == ".parquet" else file_records(path)


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
