"""Owns writes that succeed completely or change nothing."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader finds the old content or the new one, also after a crash or on a full disk.

    A link stays one, and a file keeps its permissions. A pipe or a device gets the content directly.
    """
    write_chunks(path, [content])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file in one step, as `write` does; the chunks may be read from the old one."""
    if path.exists() and not path.is_file():
        with _naming(path), path.open("wb") as stream:
            stream.writelines(chunks)
        return
    place = Path(os.path.realpath(path))
    draft = place.with_name(f"{place.name}.draft")
    with _naming(path, draft):
        try:
            with draft.open("wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            if place.exists():
                shutil.copymode(place, draft)
            draft.replace(place)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(place.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(file: int, content: bytes, *, path: Path, sync: bool = False) -> None:
    """Appends all of it to an open file, or nothing; with `sync` it is on the disk when this returns."""
    size, left = os.fstat(file).st_size, memoryview(content)
    with _naming(path):
        try:
            while left:
                left = left[os.write(file, left) :]
            if sync:
                os.fsync(file)
        except BaseException:
            os.ftruncate(file, size)  # what comes next must not follow an incomplete line
            raise


@contextmanager
def _naming(path: Path, draft: Path | None = None) -> Iterator[None]:
    """Puts the file's name into an error without a name, or with that of the draft."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, str(draft)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
