"""Owns reading records from files: JSON Lines, and official JSON documents; each with its place."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coe_agents.errors import DatasetError
from coe_agents.files import parse_json


def file_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the records of a `.jsonl` or `.json` file, compressed or not, and the place of each.

    A `.jsonl` file is read line by line. A `.json` file is a list of records, or a document as TriviaQA ("Data") or
    SQuAD ("data") publish theirs.
    """
    readers = {".jsonl": _lines, ".json": _document}
    reader = readers.get(Path(path.name.removesuffix(".gz")).suffix)
    if reader is None:
        raise DatasetError(f"{path} is not one of {', '.join(readers)}", hint="Give it the suffix of its format")
    yield from reader(path)


def _chunks(path: Path, *, lines: bool = False) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from file if lines else [file.read()]
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be read: {error}", hint="Check the path, and that the file is complete"
        ) from error


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_chunks(path, lines=True), start=1):
        if line.strip():
            yield f"{path}:{number}", _parse(path, line, number)


def _document(path: Path) -> Iterator[tuple[str, Any]]:
    (content,) = _chunks(path)
    document = _parse(path, content)

    def place(*location: str | int) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
        return ": ".join([str(path), *filter(None, ["".join(steps).lstrip(".")])])

    def inside(value: Any, kind: type, *location: str | int) -> Any:
        *outer, name = location
        if not isinstance(value, dict) or name not in value:
            raise DatasetError(
                f'{place(*outer)}: "{name}" is missing', hint="Check that the file is as it was published"
            )
        if not isinstance(value[name], kind):
            raise DatasetError(f'{place(*location)}: "{name}" must be a list', hint="Check that the file is complete")
        return value[name]

    if isinstance(document, list):
        for number, record in enumerate(document):
            yield place(number), record
    elif isinstance(document, dict) and "Data" in document:
        for number, record in enumerate(inside(document, list, "Data")):
            yield place("Data", number), record
    else:
        for number, article in enumerate(inside(document, list, "data")):
            above = ("data", number, "paragraphs")
            for n_paragraph, paragraph in enumerate(inside(article, list, *above)):
                at = (*above, n_paragraph)
                context = inside(paragraph, object, *at, "context")
                for n_record, record in enumerate(inside(paragraph, list, *at, "qas")):
                    held = {**record, "context": context} if isinstance(record, dict) else record
                    yield place(*at, "qas", n_record), held


def _parse(path: Path, content: bytes, line: int = 1) -> Any:
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise DatasetError(f"{path}:{at}: this is not JSON: {error}", hint="Check that the file is complete") from error
