"""Owns a run's folder: its settings, its lock, and the samples, kept as they come.

What one agent says to one question is a unit. A unit is appended as a whole and is on the disk before the next is
asked for, so a process that is killed loses what was in flight. It may leave its last unit torn: a line that does not
end, or lines too few. Opening the store drops that, and the units that failed, so that they are asked again; the file
holds every response once at all times.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from coe_agents.errors import ConfigurationError, StoreError

SAMPLES = "run.samples.jsonl"
SETTINGS = "settings.json"
_LOCK = ".lock"

Unit = tuple[str, str]
"""A question's id and an agent's name."""


class Store:
    """The samples of one run; use it as a context manager, in one process at a time.

    Args:
        folder: The run's; made if it is not there.
        settings: All that the responses hang on, as JSON has it; without keys.
        units: The number of responses of each unit, in the order of the finished file.

    Raises:
        ConfigurationError: On entering, if the folder holds a run with other settings; the message says which.
        StoreError: On entering, if another process writes there, or the file is no run's.
        ImportError: On entering, if `filelock` is not installed.

    Example:
        >>> import tempfile
        >>> row = {"id": "1", "agent": "a", "index": 0, "text": "Paris", "error": None}
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder), {}, {("1", "a"): 1}) as store:
        ...     before = store.pending()
        ...     store.append(("1", "a"), [row])
        ...     before, store.pending()
        ([('1', 'a')], [])
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], units: Mapping[Unit, int]) -> None:
        self.path = folder / SAMPLES
        self.errors: dict[Unit, str] = {}
        self._folder = folder
        self._settings = json.loads(json.dumps(settings))
        self._units = units
        self._kept: dict[Unit, bytes] = {}

    def __enter__(self) -> "Store":
        try:
            from filelock import FileLock, Timeout
        except ModuleNotFoundError as error:
            raise ImportError('a run needs filelock; pip install "coe-agents[evaluation]"') from error
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self._folder / _LOCK)
        try:
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise StoreError(
                f"another process writes to {self._folder}", hint="Wait for it, or choose another folder"
            ) from error
        try:
            self._check_settings()
            self._read()
            self._file = self._opened()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)
        self._lock.release()

    def pending(self) -> list[Unit]:
        """Returns the units that are not kept yet, in order."""
        return [unit for unit in self._units if unit not in self._kept]

    def append(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keeps a unit: when this returns it is on the disk.

        Raises:
            OSError: If it cannot be written.
            ValueError: If the unit is none of the run's or is kept already, or its rows are not as many as it must have
                (fewer if the last one is a failure).
        """
        if unit not in self._units or unit in self._kept or not self._is_whole(unit, rows):
            raise ValueError(
                f'"rows" must be {self._units.get(unit)} of a pending unit, or end in a failure; {len(rows)} of {unit} '
                "came. Ask for what `pending` returns"
            )
        lines = b"".join(_line(row) for row in rows)
        size, left = os.fstat(self._file).st_size, memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except BaseException:
            os.ftruncate(self._file, size)  # the next unit must not stand behind a torn one
            raise
        self._keep(unit, rows, lines)

    def finish(self) -> None:
        """Puts all units in order; so the file does not hang on who answered first, nor on how often it was stopped."""
        _write(self.path, b"".join(self._kept[unit] for unit in self._units if unit in self._kept))
        os.close(self._file)
        self._file = self._opened()

    def _opened(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _keep(self, unit: Unit, rows: Sequence[Mapping[str, Any]], lines: bytes) -> None:
        self._kept[unit] = lines
        failure = next((row["error"] for row in rows if row["error"] is not None), None)
        if failure is not None:
            self.errors[unit] = failure

    def _check_settings(self) -> None:
        path = self._folder / SETTINGS
        if path.exists():
            try:
                kept = json.loads(path.read_bytes())
            except ValueError as error:
                raise StoreError(f"{path} is not JSON: {error}", hint="Choose another folder") from error
            found = differences(kept, self._settings)
            told = [f"{name}: {before!r} there, {now!r} here" for name, before, now in found]
            if told:
                plain = [line for line in told if "sha256" not in line] or told  # digests only where they alone tell
                raise ConfigurationError(
                    "\n".join([f"{self._folder} holds a run with other settings:", *plain]),
                    hint="Choose another folder, or the same settings",
                )
        elif self.path.exists():
            raise StoreError(f"{self.path} stands there without {SETTINGS}", hint="Choose another folder")
        else:
            text = json.dumps(self._settings, indent=2, ensure_ascii=False)
            _write(path, f"{text}\n".encode(errors="replace"))

    def _read(self) -> None:
        """Reads what is kept, and drops from the file a unit that is torn, and those that failed."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole, _, _ = content.rpartition(b"\n")  # what follows the last line end is torn
        lines = whole.split(b"\n") if whole else []
        rows = [self._parsed(line, number) for number, line in enumerate(lines, start=1)]
        grouped = [
            (unit, list(group))
            for unit, group in groupby(
                zip(rows, lines, strict=True), key=lambda pair: (pair[0]["id"], pair[0]["agent"])
            )
        ]
        for place, (unit, group) in enumerate(grouped, start=1):
            held = [row for row, _ in group]
            if self._is_whole(unit, held) and unit not in self._kept:
                self._keep(unit, held, b"".join(line + b"\n" for _, line in group))
            elif place < len(grouped):
                raise StoreError(
                    f"{self.path}: the responses of {unit[1]!r} to {unit[0]!r} are not as this run wrote them",
                    hint="Choose another folder",
                )
        for unit in self.errors:
            del self._kept[unit]
        self.errors.clear()
        kept = b"".join(self._kept.values())
        if kept != content:
            _write(self.path, kept)

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
            _ = row["id"], row["agent"], row["error"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path}:{number}: this is no row of a run", hint="Choose another folder") from error
        return dict(row)

    def _is_whole(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> bool:
        wanted = self._units.get(unit, 0)
        return len(rows) == wanted or (0 < len(rows) <= wanted and rows[-1]["error"] is not None)


def differences(kept: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields what differs between two JSON values: its name, and both values.

    Example:
        >>> list(differences({"seed": 0, "agents": [{"n": 5}]}, {"seed": 0, "agents": [{"n": 6}]}))
        [('agents[0].n', 5, 6)]
    """
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in [*kept, *(key for key in now if key not in kept)]:
            yield from differences(kept.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for place, (before, after) in enumerate(zip(kept, now, strict=True)):
            yield from differences(before, after, f"{name}[{place}]")
    elif kept != now:
        yield name, kept, now


def _line(row: Mapping[str, Any]) -> bytes:
    # ASCII, so that half a surrogate pair from a model is kept, too
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def _write(path: Path, content: bytes) -> None:
    """Writes a file in one step: whoever reads it finds the former or this, also after a crash."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
