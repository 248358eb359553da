"""Owns writing a file completely or not at all."""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader finds the old content or the new one, also after a crash or on a full disk.

    A link stays one, and a file keeps its permissions. A pipe or a device cannot be replaced: it gets the content.
    """
    write_chunks(path, [content])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file in one step, as `write` does; the chunks may be read from the old one."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(chunks)
        return
    target = Path(os.path.realpath(path))
    draft = target.with_name(f"{target.name}.draft")
    try:
        with draft.open("wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise _of(path, error) from error  # nobody named the draft
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(target.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(file: int, content: bytes, *, path: Path, sync: bool = False) -> None:
    """Appends all of it to an open file, or nothing; with `sync` it is on the disk when this returns."""
    size, left = os.fstat(file).st_size, memoryview(content)
    try:
        while left:
            left = left[os.write(file, left) :]
        if sync:
            os.fsync(file)
    except BaseException as error:
        os.ftruncate(file, size)  # what comes next must not follow an incomplete line
        if isinstance(error, OSError):
            raise _of(path, error) from error
        raise


def _of(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, error.strerror, str(path))
