"""Owns writing completely or not at all."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader finds the old content or the new one, also after a crash."""
    write_chunks(path, [content])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file in one step, as `write` does; the chunks may be read from the old one.

    A link stays one. What is no file, such as a pipe, is written as it is.
    """
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
            draft.replace(place)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(place.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(path: Path, content: bytes) -> None:
    """Appends to a file, which is as before if that fails."""
    with _naming(path), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


@contextmanager
def _naming(path: Path, draft: Path | None = None) -> Iterator[None]:
    """Names the file in an error that names none, or the draft, which nobody named."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, str(draft)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
