"""Owns the folder of a run, its settings and its lock, and the samples in it, kept as they arrive.

One agent's responses to one question are a unit. A unit is appended as a whole and is on the disk before the next is
asked for, so a process that is killed loses only what was in flight. Its last unit may be incomplete: a line that does
not end, or lines too few. Opening the store drops that, and the units that failed, so that they are asked again; the
file holds every response once at all times.
"""

import json
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents.checks import require
from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.files import append, parse_json, write, write_chunks

SETTINGS = "settings.json"
_LOCK = ".lock"


@contextmanager
def run_folder(folder: Path, settings: Mapping[str, Any], *, holds: str) -> Iterator[None]:
    """Keeps a run's folder, which is created if it does not exist, to one process, and to one run.

    `settings` are all that the run's results depend on, as JSON has it; without keys. The file `holds` must not exist
    without settings. A ConfigurationError names how the settings of a run that is there differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with sole_writer(folder, folder / _LOCK):
        _check_settings(folder, json.loads(json.dumps(settings)), folder / holds)
        yield


@contextmanager
def sole_writer(written: Path, lock: Path) -> Iterator[None]:
    """Lets only this process write to a file or folder, by a lock file, which is not deleted; else a StoreError."""
    try:
        from filelock import FileLock, Timeout
    except ModuleNotFoundError as error:
        raise ImportError('a run needs filelock; pip install "coe-agents[evaluation]"') from error
    try:
        acquired = FileLock(lock).acquire(blocking=False)
    except Timeout as error:
        raise StoreError(
            f"another process writes to {written}", hint="Wait for it, or choose another place"
        ) from error
    with acquired:
        yield


def _check_settings(folder: Path, settings: Mapping[str, Any], held: Path) -> None:
    path = folder / SETTINGS
    if not path.exists():
        if held.exists():
            raise StoreError(f"{held} exists without {SETTINGS}", hint="Choose another folder")
        text = json.dumps(settings, indent=2, ensure_ascii=False)
        write(path, f"{text}\n".encode(errors="replace"))
        return

    try:
        kept = parse_json(path.read_bytes())
    except ValueError as error:
        raise StoreError(f"{path} is not JSON: {error}", hint="Choose another folder") from error

    lines = []
    digests = []
    for name, before, now in differences(kept, settings):
        line = f"{name}: {before!r} there, {now!r} here"
        if name == "sha256":
            digests.append(
                "what was built in Python: the agents, an option of their chat models, or the graph"
            )
        elif "sha256" in line:
            digests.append(line)
        else:
            lines.append(line)
    if not lines and not digests:
        return

    hint = "Choose another folder, or the same settings"
    release = kept.get("coe_agents") if isinstance(kept, dict) else None
    if release is not None and release != settings.get("coe_agents"):
        hint = f"Choose another folder, or continue with coe-agents {release}, which wrote it"
    # digests tell a reader nothing, unless nothing else differs
    listed = "\n".join(lines or digests)
    raise ConfigurationError(f"{folder} holds a run with other settings:\n{listed}", hint=hint)


def differences(kept: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields what differs between two JSON values, such as `('agents[0].n', 5, 6)`: its name, and both values."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in {**kept, **now}:
            yield from differences(kept.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for place, (before, after) in enumerate(zip(kept, now, strict=True)):
            yield from differences(before, after, f"{name}[{place}]")
    elif kept != now:
        yield name, kept, now


SAMPLES = "run.samples.jsonl"
REPAIR = "Remove what is there and rerun the same command, which asks again what is missing; or choose another folder"
"""What to do about a line that a run did not write."""

Unit = tuple[str, str]
"""A question's id and an agent's name."""
_Place = tuple[int, int]
"""Where something starts in a file, and its size, in bytes."""


class Store:
    """The samples of one run; use it as a context manager, in one process at a time.

    `settings` are all that the responses depend on, as JSON has it; without keys. `units` holds the number of responses
    of each unit, in the order of the finished file, which is called `name`.

    Raises:
        ConfigurationError: On entering, if the folder holds a run with other settings; the message names them.
        StoreError: On entering, if another process writes there, or the file does not belong to a run.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        units: Mapping[Unit, int],
        *,
        name: str = SAMPLES,
    ) -> None:
        self.path = folder / name
        self._folder = folder
        self._settings = settings
        self._units = units

    def __enter__(self) -> "Store":
        with ExitStack() as stack:
            stack.enter_context(run_folder(self._folder, self._settings, holds=self.path.name))
            if self._read():
                self._rewrite(self._kept.in_file())
                self._read()
            self._file = self._open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)
        self._stack.close()

    @property
    def n_pending(self) -> int:
        return len(self._units) - len(self._kept)

    def error_of(self, unit: Unit) -> str | None:
        return self._kept.error_of(unit)

    def is_kept(self, unit: Unit) -> bool:
        return unit in self._kept

    def pending_units(self) -> list[Unit]:
        return [unit for unit in self._units if unit not in self._kept]

    def append(self, replies: Iterable[tuple[Unit, Sequence[Mapping[str, Any]]]]) -> None:
        """Keeps units with their rows, which are written together: when this returns they are on the disk.

        A ValueError if a unit is not in the run or is kept already, or its rows are not as many as it must have
        (fewer if the last one is a failure).
        """
        start = os.fstat(self._file).st_size
        content = b""
        added = []
        for unit, rows in replies:
            n_responses = self._units.get(unit, 0)
            may_be_kept = unit not in self._kept and is_whole(n_responses, rows)
            must = f'"rows" must be {n_responses or None} of a pending unit, or end in a failure'
            require(may_be_kept, must, (len(rows), unit), "Ask for what `pending_units` returns")
            # ASCII, so that an unpaired surrogate from a model is kept, too
            lines = b""
            for row in rows:
                lines += json.dumps(row, allow_nan=False).encode() + b"\n"
            place = start + len(content)
            added.append((unit, place, len(lines), _failure(rows)))
            content += lines

        append(self._file, content, path=self.path, sync=True)
        for unit, place, size, failure in added:
            self._kept.add(unit, place, size, failure)

    def finish(self) -> None:
        """Puts all units in order, so that the file depends neither on who answered first nor on interruptions."""
        self._rewrite(place for _, place in self._in_order())
        os.close(self._file)
        self._file = self._open()
        start = 0
        for unit, (_, size) in self._in_order():
            self._kept.move(unit, start)
            start += size

    def _in_order(self) -> Iterator[tuple[Unit, _Place]]:
        for unit in self._units:
            place = self._kept.find(unit)
            if place is not None:
                yield unit, place

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _rewrite(self, places: Iterable[_Place]) -> None:
        self.path.touch()
        with self.path.open("rb") as file:

            def read(place: _Place) -> bytes:
                start, size = place
                file.seek(start)
                return file.read(size)

            write_chunks(self.path, map(read, places))

    def _read(self) -> bool:
        """Notes what is kept. Returns whether the file holds more: a unit that is torn, or some that failed."""
        self._kept = _Places()
        if not self.path.exists():
            return False
        torn: tuple[Unit, int] | None = None
        with self.path.open("rb") as file:
            for unit, group in groupby(self._iter_lines(file), key=lambda line: line.unit):
                lines = list(group)
                first = lines[0]
                rows = [line.row for line in lines]
                n_responses = self._units.get(unit, 0)
                # only the last unit may be incomplete
                if torn is not None:
                    raise self._changed(*torn)
                if unit in self._kept or len(rows) > n_responses:
                    raise self._changed(unit, first.number)

                if is_whole(n_responses, rows):
                    size = sum(line.size for line in lines)
                    self._kept.add(unit, first.start, size, _failure(rows))
                else:
                    torn = unit, first.number

        self._kept.drop_failures()
        n_bytes = sum(size for _, size in self._kept.in_file())
        return n_bytes != self.path.stat().st_size

    def _iter_lines(self, file: Iterable[bytes]) -> Iterator["_Line"]:
        start = 0
        for number, line in enumerate(file, start=1):
            # the last one may be incomplete
            if line.endswith(b"\n"):
                row = self._parse(line, number)
                yield _Line(row, number, start, len(line))
            start += len(line)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parse_json(line)
            are_strings = isinstance(row["id"], str) and isinstance(row["agent"], str)
            if not are_strings or not isinstance(row["error"], str | None):
                raise TypeError("a field that is read is of another kind")
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path}:{number}: this is not a row of a run", hint=REPAIR
            ) from error
        return dict(row)

    def _changed(self, unit: Unit, number: int) -> StoreError:
        identifier, agent = unit
        return StoreError(
            f"{self.path}:{number}: the responses of {agent!r} to {identifier!r} differ from what this run wrote",
            hint=REPAIR,
        )


class _Line(NamedTuple):
    """A row, and where its line is in the file."""

    row: Mapping[str, Any]
    number: int
    start: int
    size: int

    @property
    def unit(self) -> Unit:
        return self.row["id"], self.row["agent"]


def is_whole(n_responses: int, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows are all of a unit of so many responses: as many, or fewer that end in a failure.

    An agent that gives as many as it likes says in each row how many these are.
    """
    if not rows:
        return n_responses == 0
    last = rows[-1]
    n_responses = last.get("n_responses", n_responses)
    ends_in_failure = len(rows) < n_responses and is_failure(last)
    return len(rows) == n_responses or ends_in_failure


def is_failure(row: Mapping[str, Any]) -> bool:
    """Whether a row says that its unit failed; a row with tools and an error is one invalid proposal among others."""
    return row["error"] is not None and row.get("tools") is None


def _failure(rows: Sequence[Mapping[str, Any]]) -> str | None:
    return next((row["error"] for row in rows if is_failure(row)), None)


class _Places:
    """Where each kept unit is in the file; on the disk as well, so that memory does not grow with them."""

    def __init__(self) -> None:
        self._file = _open_scratch()
        self._end = weakref.finalize(self, self._file.close)
        self._file.execute(
            "CREATE TABLE place (unit TEXT PRIMARY KEY, start INT, size INT, error TEXT) WITHOUT ROWID"
        )
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def __contains__(self, unit: Unit) -> bool:
        return self.find(unit) is not None

    def add(self, unit: Unit, start: int, size: int, error: str | None) -> None:
        # as JSON, since the database takes no unpaired surrogate
        plain = None if error is None else json.dumps(error)
        self._file.execute(
            "INSERT INTO place VALUES (?, ?, ?, ?)", (json.dumps(unit), start, size, plain)
        )
        self._n += 1

    def move(self, unit: Unit, start: int) -> None:
        self._file.execute("UPDATE place SET start = ? WHERE unit = ?", (start, json.dumps(unit)))

    def find(self, unit: Unit) -> _Place | None:
        place: _Place | None = self._select("start, size", unit)
        return place

    def in_file(self) -> Iterator[_Place]:
        yield from self._file.execute("SELECT start, size FROM place ORDER BY start")

    def drop_failures(self) -> None:
        self._n -= self._file.execute("DELETE FROM place WHERE error IS NOT NULL").rowcount

    def error_of(self, unit: Unit) -> str | None:
        row = self._select("error", unit)
        if row is None or row[0] is None:
            return None
        return str(json.loads(row[0]))

    def _select(self, columns: str, unit: Unit) -> Any:
        query = f"SELECT {columns} FROM place WHERE unit = ?"
        return self._file.execute(query, (json.dumps(unit),)).fetchone()


def _open_scratch() -> sqlite3.Connection:
    """Returns a database in a file that is gone when it is closed; memory holds a cache of at most 8 MB."""
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # nobody reads it after a crash
    for setting in (
        "journal_mode = OFF",
        "synchronous = OFF",
        "temp_store = FILE",
        "cache_size = -8192",
    ):
        database.execute(f"PRAGMA {setting}")
    return database
