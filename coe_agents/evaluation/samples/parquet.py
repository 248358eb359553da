"""Owns rows as Parquet: the same as in a file of JSON Lines, with the same types.

Tool calls and the schemas of tools are columns of JSON, since the arguments of each tool have types of their own.

A text may contain an unpaired surrogate, which UTF-8, and so Parquet, cannot store. The columns then show a question
mark there, and `exact` holds the row as JSON, from which it is read again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from coe_agents.checks import require
from coe_agents.files import parse_json

PARTS = "samples"
"""The folder of a run that holds its samples as Parquet."""
SAMPLE_COLUMNS = {
    "id": "string",
    "question": "string",
    "references": "strings",
    "agent": "string",
    "round": "int64",
    "index": "int64",
    "text": "string",
    "answer": "string",
    "logprob": "double",
    "n_tokens": "int64",
    "correct": "bool",
    "error": "string",
    "answerable": "bool",
    "calls": "json",
    "tools": "json",
}
"""The fields that every sample has."""
_NEVER_NULL = ("question", "references", "round")  # what may be left out of a sample, and may not be null
_JSON = tuple(name for name, kind in SAMPLE_COLUMNS.items() if kind == "json")
_EXACT = "exact"
_BATCH = 1024


def part_file(folder: Path, number: int) -> Path:
    """Returns where a part of a run is kept; names are in the order of the parts."""
    return folder / f"part-{number:05d}.parquet"


def to_parquet(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> bytes:
    """Returns rows, values of JSON, as a Parquet file.

    `columns` are each field's type as Arrow names it, "strings" for a list of them, or "json" for any value, which is
    stored as JSON; any may be null. A ValueError if a row has another field, or a number that is not finite.

    Example:
        >>> [*rows_of(BytesIO(to_parquet([{"id": "1", "n": None}], {"id": "string", "n": "int64"})))]
        [{'id': '1', 'n': None}]
    """
    arrow = _pyarrow()
    prepared = []
    nested = {name for name, kind in columns.items() if kind == "json"}
    for row in rows:
        strange = sorted(row.keys() - columns.keys())
        must = 'the fields of a row must be among "columns"'
        require(not strange, must, ", ".join(strange), "Name each with its type")
        line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        shown = line.encode(errors="replace").decode()
        plain = row if shown == line else {**json.loads(shown), _EXACT: json.dumps(row)}
        stored = {name: json.dumps(plain[name]) for name in nested & plain.keys() if plain[name] is not None}
        prepared.append({**plain, **stored})
    kinds = {"strings": arrow.list_(arrow.string()), "json": arrow.string()}
    fields = [
        (name, kinds.get(kind) or arrow.type_for_alias(kind)) for name, kind in {**columns, _EXACT: "string"}.items()
    ]
    file = BytesIO()
    arrow.parquet.write_table(arrow.Table.from_pylist(prepared, arrow.schema(fields)), file, compression="zstd")
    return file.getvalue()


def rows_of(file: Path | BytesIO, *, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file, a batch of them in memory at a time.

    By default they have all columns; rows whose text UTF-8 has no place for always do. The calls and tools of samples
    are read as JSON where they are text. A ValueError if it is not a Parquet file.
    """
    with _pyarrow().parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        chosen = None if columns is None else [*columns, *([_EXACT] if _EXACT in names else ())]
        for batch in opened.iter_batches(_BATCH, columns=chosen):
            for row in batch.to_pylist():
                exact = row.pop(_EXACT, None)
                if isinstance(exact, str):
                    yield json.loads(exact)
                    continue
                yield {
                    name: _from_json(value) if name in _JSON else value
                    for name, value in row.items()
                    if value is not None or name not in _NEVER_NULL
                }


def _from_json(value: Any) -> Any:
    """Returns the value of a column of JSON; what is not JSON stays as it is, for the check of fields to name."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ImportError('Parquet needs pyarrow; pip install "coe-agents[evaluation]"') from error
    return pyarrow
