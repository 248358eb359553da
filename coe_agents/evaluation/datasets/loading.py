"""Owns the step from a dataset's name or path to its questions."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from coe_agents.errors import ConfigurationError, DatasetError
from coe_agents.evaluation.datasets.files import file_records
from coe_agents.evaluation.datasets.hub import DEFAULT_SPLIT, PUBLISHED, Published, hub_records
from coe_agents.evaluation.datasets.question import Kind, Place, Question, QuestionSet, to_set
from coe_agents.evaluation.datasets.records import MalformedError, to_question


def load_questions(source: str, *, split: str | None = None) -> QuestionSet:
    """Returns the questions of a dataset, each once; a malformed record is an error, never skipped.

    Args:
        source: A name of `PUBLISHED`, which is loaded from the hub; a folder or Parquet file, which the `datasets`
            library reads as it does the hub; or a `.jsonl`, `.json` or `.csv` file, compressed or not.
        split: Of a dataset; "validation" unless given. A single file has none.

    Raises:
        ConfigurationError: If there is no such dataset or file, or a split is given with a file.
        DatasetError: If it cannot be read; the message names file and line, or the row.
        ImportError: If `datasets` is needed and not installed.
    """
    path = Path(source)
    published = PUBLISHED.get(source)
    if published is None and path.is_dir():
        published = Published(source)
    if published is not None:
        chosen = split or DEFAULT_SPLIT
        return to_set(f"{published}, {chosen}", _questions(hub_records(published, chosen)))
    if not path.is_file():
        raise ConfigurationError(
            f'"{source}" is neither a dataset nor a file',
            hint=f"The datasets are {', '.join([*PUBLISHED, 'tinyworld'])}",
        )
    if split is not None:
        raise ConfigurationError(
            f'"--split" must be omitted for a file; got "{split}" for {path}', hint='Omit "--split"'
        )
    if path.suffix == ".parquet":
        return to_set(source, _questions(hub_records(Published(source), "train")))
    return to_set(source, _questions(file_records(path)))


def _questions(records: Iterable[tuple[Place, Any]]) -> Iterator[tuple[Place, Kind, Question]]:
    for place, record in records:
        try:
            kind, question = to_question(record)
        except MalformedError as error:
            raise DatasetError(f"{place()}: {error}", hint="Correct the record, or take it out") from error
        yield place, kind, question
