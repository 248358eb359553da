"""Owns samples as Parquet: the same rows as in a file of JSON Lines, with the same types.

A response may hold half a surrogate pair, for which UTF-8 has no place, and so Parquet has none. The columns then show
a question mark there, and `exact` holds the row as JSON, from which it is read again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

PARTS = "samples"
"""The folder of a run that holds its samples as Parquet."""
_COLUMNS = {
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
}
_NEVER_NULL = {name for name, kind in _COLUMNS.items() if kind in ("strings", "int64")} | {"question"} - {"n_tokens"}
_EXACT = "exact"
_BATCH = 1024


def to_parquet(rows: Iterable[Mapping[str, Any]], *, numbers: Iterable[str] = ()) -> bytes:
    """Returns samples as a Parquet file.

    Args:
        rows: The samples.
        numbers: Fields beyond those that every sample has, each a number or null.

    Raises:
        ValueError: If a sample has another field.
        ImportError: If pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    kinds = {**_COLUMNS, **dict.fromkeys(numbers, "double"), _EXACT: "string"}
    told = []
    for row in rows:
        strange = row.keys() - kinds.keys()
        if strange:
            raise ValueError(
                f"a sample as Parquet has the fields {', '.join(kinds)}; {', '.join(sorted(strange))} came. "
                'Name fields that hold numbers in "numbers"'
            )
        line = json.dumps(row, ensure_ascii=False)
        shown = line.encode(errors="replace").decode()
        told.append(dict(row) if shown == line else {**json.loads(shown), _EXACT: json.dumps(row)})
    types = {"strings": arrow.list_(arrow.string())}
    schema = arrow.schema([(name, types.get(kind) or arrow.type_for_alias(kind)) for name, kind in kinds.items()])
    file = BytesIO()
    parquet.write_table(arrow.Table.from_pylist(told, schema), file, compression="zstd")
    return file.getvalue()


def rows_of(file: Path | BytesIO, *, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file, a batch of them in memory at a time.

    Args:
        file: A path, or what it holds.
        columns: All where not given; of rows whose text UTF-8 has no place for always all.

    Raises:
        ValueError: If it is no Parquet file.
        OSError: If it cannot be read.
        ImportError: If pyarrow is not installed.
    """
    _, parquet = _pyarrow()
    with parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        chosen = None if columns is None else [*columns, *([_EXACT] if _EXACT in names else ())]
        for batch in opened.iter_batches(_BATCH, columns=chosen):
            for row in batch.to_pylist():
                exact = row.pop(_EXACT, None)
                yield (
                    json.loads(exact)
                    if isinstance(exact, str)
                    else {name: value for name, value in row.items() if value is not None or name not in _NEVER_NULL}
                )


def _pyarrow() -> "tuple[Any, Any]":
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ImportError('Parquet needs pyarrow; pip install "coe-agents[evaluation]"') from error
    return pyarrow, pyarrow.parquet
