"""Owns the folder of a run: its settings and its lock."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coe_agents.errors import ConfigurationError, StoreError
from coe_agents.files import parse_json, write

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
        raise StoreError(f"another process writes to {written}", hint="Wait for it, or choose another place") from error
    with acquired:
        yield


def _check_settings(folder: Path, settings: Mapping[str, Any], held: Path) -> None:
    path = folder / SETTINGS
    if path.exists():
        try:
            kept = parse_json(path.read_bytes())
        except ValueError as error:
            raise StoreError(f"{path} is not JSON: {error}", hint="Choose another folder") from error
        found = differences(kept, settings)
        lines = [f"{name}: {before!r} there, {now!r} here" for name, before, now in found]
        if lines:
            plain = [line for line in lines if "sha256" not in line] or lines  # digests only where nothing else differs
            hint = "Choose another folder, or the same settings"
            release = kept.get("coe_agents") if isinstance(kept, dict) else None
            if release is not None and release != settings.get("coe_agents"):
                hint = f"Choose another folder, or continue with coe-agents {release}, which wrote it"
            raise ConfigurationError("\n".join([f"{folder} holds a run with other settings:", *plain]), hint=hint)
    elif held.exists():
        raise StoreError(f"{held} exists without {SETTINGS}", hint="Choose another folder")
    else:
        text = json.dumps(settings, indent=2, ensure_ascii=False)
        write(path, f"{text}\n".encode(errors="replace"))


def differences(kept: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields what differs between two JSON values, such as `('agents[0].n', 5, 6)`: its name, and both values."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in [*kept, *(key for key in now if key not in kept)]:
            yield from differences(kept.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for place, (before, after) in enumerate(zip(kept, now, strict=True)):
            yield from differences(before, after, f"{name}[{place}]")
    elif kept != now:
        yield name, kept, now
