"""Owns the folder of a run, its settings and its lock, and the samples in it, kept as they arrive.

One agent's responses to one question are a unit. A unit is appended as a whole and is on the disk before the next is
asked for, so a process that is killed loses only what was in flight. Its last unit may be incomplete: a line that does
not end, or lines too few. Opening the store drops that, and the units that failed, so that they are asked again; the
file holds every response once at all times.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from coe_agents.checks import require
from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.files import append, parse_json, write, write_chunks
from coe_agents.types import Fields, JsonObject

SETTINGS = "settings.json"
_LOCK = ".lock"


def folder_of(path: Path) -> Path:
    """Returns the folder of a run: itself, or that of a file in it."""
    return path if path.is_dir() else path.parent


@contextmanager
def run_folder(folder: Path, settings: Fields, *, holds: str) -> Iterator[None]:
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


def _check_settings(folder: Path, settings: Fields, held: Path) -> None:
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


class _Kept(NamedTuple):
    """Where a unit starts in the file, and its size, in bytes; and whether it failed."""

    start: int
    size: int
    has_failed: bool


class Store:
    """The samples of one run; use it as a context manager, in one process at a time.

    `settings` are all that the responses depend on, as JSON has it; without keys. `units` holds the number of responses
    of each unit, in the order of the finished file, which is called `name`.

    Raises:
        ConfigurationError: On entering, if the folder holds a run with other settings; the message names them.
        StoreError: On entering, if another process writes there, or the file does not belong to a run.
    """

    def __init__(
        self, folder: Path, settings: Fields, units: Mapping[Unit, int], *, name: str = SAMPLES
    ) -> None:
        self.path = folder / name
        self._folder = folder
        self._settings = settings
        self._units = units
        self._kept: dict[Unit, _Kept] = {}

    def __enter__(self) -> "Store":
        with ExitStack() as stack:
            stack.enter_context(run_folder(self._folder, self._settings, holds=self.path.name))
            if self._read():
                self._rewrite(self._kept.values())
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

    def has_failed(self, unit: Unit) -> bool:
        return unit in self._kept and self._kept[unit].has_failed

    def is_kept(self, unit: Unit) -> bool:
        return unit in self._kept

    def pending_units(self) -> list[Unit]:
        return [unit for unit in self._units if unit not in self._kept]

    def append(self, replies: Iterable[tuple[Unit, Sequence[Fields]]]) -> None:
        """Keeps units with their rows, which are written together: when this returns they are on the disk.

        A ValueError if a unit is not in the run or is kept already, or its rows are not as many as it must have
        (fewer if the last one is a failure).
        """
        start = os.fstat(self._file).st_size
        content = b""
        added = {}
        for unit, rows in replies:
            n_responses = self._units.get(unit, 0)
            may_be_kept = unit not in self._kept and is_whole(n_responses, rows)
            must = f'"rows" must be {n_responses or None} of a pending unit, or end in a failure'
            require(may_be_kept, must, (len(rows), unit), "Ask for what `pending_units` returns")
            # ASCII, so that an unpaired surrogate from a model is kept, too
            lines = b""
            for row in rows:
                lines += json.dumps(row, allow_nan=False).encode() + b"\n"
            added[unit] = _Kept(start + len(content), len(lines), is_failed(rows))
            content += lines

        append(self._file, content, path=self.path, sync=True)
        self._kept |= added

    def finish(self) -> None:
        """Puts all units in order, so that the file depends neither on who answered first nor on interruptions."""
        in_order = [unit for unit in self._units if unit in self._kept]
        self._rewrite(map(self._kept.__getitem__, in_order))
        os.close(self._file)
        self._file = self._open()
        start = 0
        for unit in in_order:
            kept = self._kept[unit]
            self._kept[unit] = kept._replace(start=start)
            start += kept.size

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _rewrite(self, units: Iterable[_Kept]) -> None:
        self.path.touch()
        with self.path.open("rb") as file:

            def read(kept: _Kept) -> bytes:
                file.seek(kept.start)
                return file.read(kept.size)

            write_chunks(self.path, map(read, units))

    def _read(self) -> bool:
        """Notes what is kept. Returns whether the file holds more: a unit that is torn, or some that failed."""
        self._kept = {}
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
                    self._kept[unit] = _Kept(first.start, size, is_failed(rows))
                else:
                    torn = unit, first.number

        failed = [unit for unit, kept in self._kept.items() if kept.has_failed]
        for unit in failed:
            del self._kept[unit]
        n_bytes = sum(kept.size for kept in self._kept.values())
        return n_bytes != self.path.stat().st_size

    def _iter_lines(self, file: Iterable[bytes]) -> Iterator["_Line"]:
        start = 0
        for number, line in enumerate(file, start=1):
            # the last one may be incomplete
            if line.endswith(b"\n"):
                row = self._parse(line, number)
                yield _Line(row, number, start, len(line))
            start += len(line)

    def _parse(self, line: bytes, number: int) -> JsonObject:
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

    row: Fields
    number: int
    start: int
    size: int

    @property
    def unit(self) -> Unit:
        # of all lines, one text for each agent
        return self.row["id"], sys.intern(self.row["agent"])


def is_whole(n_responses: int, rows: Sequence[Fields]) -> bool:
    """Whether rows are all of a unit of so many responses: as many, or fewer that end in a failure.

    An agent that gives as many as it likes says in each row how many these are.
    """
    if not rows:
        return n_responses == 0
    last = rows[-1]
    n_responses = last.get("n_responses", n_responses)
    ends_in_failure = len(rows) < n_responses and is_failure(last)
    return len(rows) == n_responses or ends_in_failure


def is_failure(row: Fields) -> bool:
    """Whether a row says that its unit failed; a row with tools and an error is one invalid proposal among others."""
    return row["error"] is not None and row.get("tools") is None


def is_failed(rows: Iterable[Fields]) -> bool:
    """Whether one of a unit's rows says that it failed."""
    return any(map(is_failure, rows))
