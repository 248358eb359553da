"""Owns reading records from files: JSON Lines, official JSON documents, CSV; each with its line."""

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from coe_agents.errors import DatasetError
from coe_agents.evaluation.datasets.question import Place
from coe_agents.files import parse_json

_BETWEEN = re.compile(r"[\s,:]*")


def file_records(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yields the records of a `.jsonl`, `.json` or `.csv` file, compressed or not, and the place of each.

    A `.jsonl` file is read line by line. A `.json` file is a list of records, or a document as TriviaQA ("Data") or
    SQuAD ("data") publish theirs.
    """
    readers = {".jsonl": _lines, ".json": _document, ".csv": _table}
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


def line_of(text: str, location: tuple[str | int, ...]) -> int:
    r"""Returns the line (from 1) at which a value of a JSON document begins."""
    decoder, at = json.JSONDecoder(), _after(text, 0)
    for part in location:
        at, place = _after(text, at + 1), 0
        while True:
            key: Any = place
            if isinstance(part, str):
                key, at = decoder.raw_decode(text, at)
                at = _after(text, at)
            if key == part:
                break
            at, place = _after(text, decoder.raw_decode(text, at)[1]), place + 1
    return text.count("\n", 0, at) + 1


def _after(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _lines(path: Path) -> Iterator[tuple[Place, Any]]:
    for number, line in enumerate(_chunks(path, lines=True), start=1):
        if line.strip():
            yield partial("{}:{}".format, path, number), _parse(path, line, number)


def _document(path: Path) -> Iterator[tuple[Place, Any]]:
    (content,) = _chunks(path)
    document = _parse(path, content)
    text = content.decode("utf-8-sig")

    def place(*location: str | int) -> str:
        return f"{path}:{line_of(text, location)}"

    def inside(value: Any, kind: type, *location: str | int) -> Any:
        """Returns what a dictionary holds last in `location`, or says where it does not."""
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
            yield partial(place, number), record
    elif isinstance(document, dict) and "Data" in document:
        for number, record in enumerate(inside(document, list, "Data")):
            yield partial(place, "Data", number), record
    else:
        for number, article in enumerate(inside(document, list, "data")):
            above = ("data", number, "paragraphs")
            for n_paragraph, paragraph in enumerate(inside(article, list, *above)):
                at = (*above, n_paragraph)
                context = inside(paragraph, object, *at, "context")
                for n_record, record in enumerate(inside(paragraph, list, *at, "qas")):
                    held = {**record, "context": context} if isinstance(record, dict) else record
                    yield partial(place, *at, "qas", n_record), held


def _table(path: Path) -> Iterator[tuple[Place, Any]]:
    (content,) = _chunks(path)
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        before = 1
        for row in rows:
            yield partial("{}:{}".format, path, before + 1), row
            before = rows.line_num
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not CSV: {error}", hint="Check that the file is complete") from error


def _parse(path: Path, content: bytes, line: int = 1) -> Any:
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:
        at = line + getattr(error, "lineno", 1) - 1
        raise DatasetError(f"{path}:{at}: this is not JSON: {error}", hint="Check that the file is complete") from error
