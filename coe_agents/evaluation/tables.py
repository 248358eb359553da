"""Owns tables on the disk: rows in the order of a key, and the records of files, both by DuckDB.

A table spills to a folder of its own when memory ends, and the folder goes with the table.
"""

import csv
import glob
import gzip
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from coe_agents.evaluation.parallel import n_cores
from coe_agents.files import parse_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_BYTES = 16 * 2**20
"""Bytes of a record: a line of a file, or an element of an array. A longer one is no response."""
MOST_UNPACKED = 4 * 2**30
"""Bytes that a packed file may hold. A file that is not packed has no such bound."""
_MEMORY = "256MB"
_ADDED = 1024
_FETCHED = 128


Row: TypeAlias = tuple[bytes, int, int, str]
"""A text behind its key, the number of the file that it is of, and that of its record there."""


class RowTable:
    """Rows in the order of their keys, each with the rows of the same key in the order of files and records.

    Fill it by `add`, then `sort` it once.

    Example:
        >>> table = RowTable()
        >>> table.add([(b"2", 0, 1, "x"), (b"1", 0, 2, "y"), (b"2", 0, 3, "z")])
        >>> table.sort()
        >>> [(key, [text for *_, text in rows]) for key, rows in table], len(table)
        ([(b'1', ['y']), (b'2', ['x', 'z'])], 2)
    """

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="coe-agents-")
        self.database = _connect(folder)
        self.close = weakref.finalize(self, _end, self.database, folder)
        self.execute("CREATE TABLE unsorted (key BLOB, file INT, record BIGINT, text VARCHAR)")
        self._n = 0
        self.n_rows = 0

    def add(self, rows: Iterable[Row]) -> None:
        waiting = iter(rows)
        while batch := list(islice(waiting, _ADDED)):
            keys, files, records, texts = zip(*batch, strict=True)
            columns = {
                "key": np.array(keys, dtype=object),
                "file": np.array(files),
                "record": np.array(records),
                "text": np.array(texts, dtype=object),
            }
            cursor = self.database.cursor()
            cursor.register("batch", columns)
            cursor.execute("INSERT INTO unsorted SELECT * FROM batch")
            cursor.unregister("batch")

    def sort(self) -> None:
        self.execute("CREATE TABLE sorted AS FROM unsorted ORDER BY key, file, record, rowid")
        self.execute("DROP TABLE unsorted")
        counts = "SELECT count(DISTINCT key), count(*) FROM sorted"
        ((self._n, self.n_rows),) = self.stream(counts)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[tuple[bytes, list[Row]]]:
        for key, rows in groupby(self.stream("FROM sorted"), key=itemgetter(0)):
            yield key, list(rows)

    def execute(self, query: str, values: Sequence[Any] = ()) -> "DuckDBPyConnection":
        """Runs a query beside others; an OSError if a file cannot be read, or the disk is full."""
        from duckdb import Error

        try:
            return self.database.cursor().execute(query, list(values))
        except Error as error:
            raise OSError(str(error)) from error

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query, of which a few are in memory."""
        found = self.execute(query, values)
        while batch := found.fetchmany(_FETCHED):
            yield from batch


def _connect(folder: str) -> "DuckDBPyConnection":
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ImportError(
            'samples and datasets need duckdb; pip install "coe-agents[evaluation]"'
        ) from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": folder,
        "memory_limit": _MEMORY,
        # each thread that reads JSON holds two records of the largest size
        "threads": min(n_cores(), 4),
        # what is needed is in the package: nothing is downloaded
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(config=settings)


def _end(database: "DuckDBPyConnection", folder: str) -> None:
    database.close()
    shutil.rmtree(folder, ignore_errors=True)


Form = Literal["lines", "array", "document", "csv", "parquet", "zip"]
FORM_NAMES: Mapping[Form, str] = {
    "lines": "JSON Lines",
    "array": "a JSON array",
    "document": "one JSON object",
    "csv": "CSV",
    "parquet": "Parquet",
    "zip": "a zip archive",
}


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records, and how it is written."""

    path: Path
    form: Form

    def query(self) -> tuple[str, list[Any]]:
        """Returns a query for the records of a file without lines, as the column `text` in JSON, and its values.

        A cell of CSV is a string, or null where it is empty.
        """
        path = glob.escape(str(self.path.absolute()))
        if self.form == "csv":
            delimiter, names = self._read_header()
            columns = dict.fromkeys(names, "VARCHAR")
            reader = (
                "SELECT to_json(cells) AS text FROM read_csv(?, columns=?, delim=?, header=true, auto_detect=false, "
                f"quote='\"', escape='\"', max_line_size={MOST_BYTES}, buffer_size={2 * MOST_BYTES}) cells"
            )
            return reader, [path, columns, delimiter]
        if self.form == "parquet":
            reader = (
                "SELECT to_json(cells) AS text FROM read_parquet(?, hive_partitioning=false) cells"
            )
        else:
            reader = f"SELECT json AS text FROM read_json_objects(?, format='array', maximum_object_size={MOST_BYTES})"
        return reader, [path]

    def place(self, number: int) -> str:
        """Returns the file and line of a record, or its number where lines say nothing; see `read_records`."""
        if self.form == "lines":
            return f"{self.path}:{number}"
        if self.form == "csv":  # the header is the first line
            return f"{self.path}:{number + 1}"
        return f"{self.path}: record {number}"

    def open(self) -> IO[bytes]:
        return open_packed(self.path)

    def _read_header(self) -> tuple[str, list[str]]:
        """Returns the delimiter, which is the one that stands most often in the first line, and the columns' names."""
        with self.open() as file:
            line = read_line(file).decode("utf-8-sig", "replace")
        delimiter = max(",;\t", key=line.count)
        return delimiter, next(csv.reader([line], delimiter=delimiter), [])


def read_records(file: RecordFile) -> Iterator[tuple[int, str | bytes]]:
    """Yields each record of a file, with the number of its line, or its own where lines say nothing.

    Blank lines are left out. An OSError if the file cannot be read, or a line holds more than `MOST_BYTES`.
    """
    if file.form == "lines":
        yield from _read_lines(file)
        return

    query, values = file.query()
    table = RowTable()
    try:
        yield from table.stream(f"SELECT row_number() OVER (), text FROM ({query})", values)
    finally:
        table.close()


def _read_lines(file: RecordFile) -> Iterator[tuple[int, bytes]]:
    with file.open() as lines:
        for number, line in enumerate(iter(partial(read_line, lines), b""), start=1):
            if len(line) > MOST_BYTES:
                raise OSError(
                    f"line {number} is longer than {MOST_BYTES // 2**20} MB. A response is less"
                )
            if line.strip():
                yield number, line


def open_packed(path: Path) -> IO[bytes]:
    """Opens a file, which is unpacked as it is read if it ends in ".gz"."""
    if path.suffix != ".gz":
        return path.open("rb")
    return cast("IO[bytes]", gzip.open(path, "rb"))


def read_line(file: IO[bytes]) -> bytes:
    """Returns the next line, of which at most `MOST_BYTES` and one are kept."""
    line = file.readline(MOST_BYTES + 1)
    rest = line
    while len(rest) > MOST_BYTES and not rest.endswith(b"\n"):
        rest = file.readline(MOST_BYTES + 1)
    return line


def find_form(path: Path) -> Form:
    """Returns how a file is written, by its first bytes, and by its suffix where these say nothing.

    Raises:
        OSError: It cannot be read, or is a packed file that is not whole.
        ValueError: It holds more than `MOST_UNPACKED` bytes.
    """
    check_packed(path)
    with open_packed(path) as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    suffixes = path.suffixes
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        return "zip"
    if ".csv" in suffixes or ".tsv" in suffixes:
        return "csv"
    if start.startswith(b"["):
        return "array"
    if ".json" in suffixes and start.startswith(b"{") and not _is_object(start.splitlines()[0]):
        return "document"
    return "lines"


def is_one_line(path: Path, form: Form) -> bool:
    """Returns whether a file is one JSON value, whatever its lines."""
    if form == "document":
        return True
    with open_packed(path) as file:
        read_line(file)
        return not read_line(file).strip()


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


def check_packed(path: Path) -> None:
    """Refuses a packed file that is not whole, or holds too much."""
    if path.suffix != ".gz":
        return
    n_bytes = 0
    try:
        with gzip.open(path, "rb") as packed:
            while chunk := packed.read(2**20):
                n_bytes += len(chunk)
                if n_bytes > MOST_UNPACKED:
                    raise ValueError(
                        f"it holds more than {MOST_UNPACKED // 2**30} GB. Unpack it first"
                    )
    except (EOFError, zlib.error) as error:
        raise OSError(str(error)) from error
