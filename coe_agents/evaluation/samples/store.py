"""Owns the samples of a run in this process, kept as they arrive.

One agent's responses to one question are a unit. A unit is appended as a whole and is on the disk before the next is
asked for, so a process that is killed loses only what was in flight. Its last unit may be incomplete: a line that does
not end, or lines too few. Opening the store drops that, and the units that failed, so that they are asked again; the
file holds every response once at all times.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

from coe_agents.documents import parse_json
from coe_agents.errors import StoreError
from coe_agents.evaluation.samples.folder import run_folder, write

SAMPLES = "run.samples.jsonl"

Unit = tuple[str, str]
"""A question's id and an agent's name."""


class Store:
    """The samples of one run; use it as a context manager, in one process at a time.

    `settings` are all that the responses depend on, as JSON has it; without keys. `units` holds the number of responses
    of each unit, in the order of the finished file, which is called `name`.

    Raises:
        ConfigurationError: On entering, if the folder holds a run with other settings; the message names them.
        StoreError: On entering, if another process writes there, or the file does not belong to a run.
        ImportError: On entering, if `filelock` is not installed.

    Example:
        >>> import tempfile
        >>> row = {"id": "1", "agent": "a", "index": 0, "text": "Paris", "error": None}
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder), {}, {("1", "a"): 1}) as store:
        ...     before = store.pending_units()
        ...     store.append(("1", "a"), [row])
        ...     before, store.pending_units()
        ([('1', 'a')], [])
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], units: Mapping[Unit, int], *, name: str = SAMPLES
    ) -> None:
        self.path = folder / name
        self.errors: dict[Unit, str] = {}
        self._folder = folder
        self._settings = settings
        self._units = units
        self._kept: dict[Unit, bytes] = {}

    def __enter__(self) -> "Store":
        with ExitStack() as stack:
            stack.enter_context(run_folder(self._folder, self._settings, holds=self.path.name))
            self._read()
            self._file = self._open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)
        self._stack.close()

    def pending_units(self) -> list[Unit]:
        """Returns the units that are not kept yet, in order."""
        return [unit for unit in self._units if unit not in self._kept]

    def append(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keeps a unit: when this returns it is on the disk.

        Raises:
            OSError: If it cannot be written.
            ValueError: If the unit is not in the run or is kept already, or its rows are not as many as it must have
                (fewer if the last one is a failure).
        """
        if unit not in self._units or unit in self._kept or not is_whole(self._units.get(unit, 0), rows):
            raise ValueError(
                f'"rows" must be {self._units.get(unit)} of a pending unit, or end in a failure; got '
                f"{len(rows)} of {unit}. Ask for what `pending_units` returns"
            )
        lines = b"".join(_line(row) for row in rows)
        size, left = os.fstat(self._file).st_size, memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except BaseException:
            os.ftruncate(self._file, size)  # the next unit must not follow an incomplete one
            raise
        self._keep(unit, rows, lines)

    def finish(self) -> None:
        """Puts all units in order, so that the file depends neither on who answered first nor on interruptions."""
        write(self.path, b"".join(self._kept[unit] for unit in self._units if unit in self._kept))
        os.close(self._file)
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _keep(self, unit: Unit, rows: Sequence[Mapping[str, Any]], lines: bytes) -> None:
        self._kept[unit] = lines
        failure = next((row["error"] for row in rows if is_failure(row)), None)
        if failure is not None:
            self.errors[unit] = failure

    def _read(self) -> None:
        """Reads what is kept, and drops from the file a unit that is torn, and those that failed."""
        content = self.path.read_bytes() if self.path.exists() else b""
        whole, _, _ = content.rpartition(b"\n")  # what follows the last line end is incomplete
        lines = whole.split(b"\n") if whole else []
        rows = [self._parse(line, number) for number, line in enumerate(lines, start=1)]
        grouped = [
            (unit, list(group))
            for unit, group in groupby(
                zip(rows, lines, strict=True), key=lambda pair: (pair[0]["id"], pair[0]["agent"])
            )
        ]
        for place, (unit, group) in enumerate(grouped, start=1):
            held = [row for row, _ in group]
            if is_whole(self._units.get(unit, 0), held) and unit not in self._kept:
                self._keep(unit, held, b"".join(line + b"\n" for _, line in group))
            elif place < len(grouped):
                raise StoreError(
                    f"{self.path}: the responses of {unit[1]!r} to {unit[0]!r} differ from what this run wrote",
                    hint="Choose another folder",
                )
        for unit in self.errors:
            del self._kept[unit]
        self.errors.clear()
        kept = b"".join(self._kept.values())
        if kept != content:
            write(self.path, kept)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parse_json(line)
            _ = row["id"], row["agent"], row["error"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path}:{number}: this is not a row of a run", hint="Choose another folder"
            ) from error
        return dict(row)


def is_whole(n_responses: int, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows are all of a unit of so many responses: as many, or fewer that end in a failure."""
    return len(rows) == n_responses or (0 < len(rows) <= n_responses and is_failure(rows[-1]))


def is_failure(row: Mapping[str, Any]) -> bool:
    """Whether a row says that its unit failed; a row with tools and an error is one invalid proposal among others."""
    return row["error"] is not None and row.get("tools") is None


def _line(row: Mapping[str, Any]) -> bytes:
    # ASCII, so that an unpaired surrogate from a model is kept, too
    return json.dumps(row, allow_nan=False).encode() + b"\n"
