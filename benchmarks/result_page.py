"""Writes what a benchmark prints into the documentation: its output, the command, the date and the machine.

def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_write_option(parser)
    args = parser.parse_args()
    with result_page(args.write):
        print(...)
"""

import argparse
import contextlib
import io
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent


def add_write_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--write FILE`, for `result_page`."""
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="write what is printed into this file, too, such as docs/results/X.md",
    )


@contextlib.contextmanager
def result_page(path: Path | None) -> Iterator[None]:
    """Writes what the block prints into `path`, as Markdown when it ends without an error; None writes nothing."""
    if path is None:
        yield
        return
    copy = io.StringIO()
    with contextlib.redirect_stdout(_Both(sys.stdout, copy)):
        yield
    path.write_text(page(copy.getvalue(), command=_command()))


def page(output: str, *, command: str) -> str:
    """Returns the Markdown of one result."""
    cores = len(os.sched_getaffinity(0))
    where = f"{datetime.now(UTC):%Y-%m-%d}, {cores} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"`{command}` ({where}):\n\n```text\n{output.strip(chr(10))}\n```\n"


def _command() -> str:
    """Returns the command line without `--write` and its file, and with no path of this machine."""
    words = [str(Path(sys.argv[0]).resolve().relative_to(ROOT)), *sys.argv[1:]]
    kept, skip = [], False
    for word in words:
        if skip or word == "--write" or word.startswith("--write="):
            skip = word == "--write"
            continue
        kept.append("FOLDER" if Path(word).is_absolute() else word)
    return " ".join(["python", *kept])


class _Both(io.TextIOBase):
    def __init__(self, *streams: io.TextIOBase | io.StringIO) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self._streams:
            stream.flush()
