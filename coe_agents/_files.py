"""Owns writing a file completely or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Writes a file in one step: a reader finds the old content or the new one, also after a crash."""
    write_chunks(path, [content])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file in one step, as `write` does; the chunks may be read from the old one."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        opened = draft.open("wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # nobody named the draft
    with opened as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
