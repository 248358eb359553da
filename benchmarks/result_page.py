"""Gives every benchmark `--write FILE`: what it prints, its command, the date and versions, as a page in docs/results.

    if __name__ == "__main__":
        with result_page():
            main()

`make benchmark` writes all pages. Nobody edits them: a test compares each with the digest in its first line.
"""

import argparse
import contextlib
import hashlib
import io
import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
MARKER = (
    "<!-- Output of a benchmark: do not edit, rerun it with --write. SHA-256 of the rest: {} -->\n"
)
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "transformers",
    "langgraph",
    "langchain-openai",
)
"""Distributions whose versions a page names if the benchmark imported them."""


@contextlib.contextmanager
def result_page() -> Iterator[None]:
    """Takes `--write FILE` from the command line and writes what the block prints into FILE, too.

    Nothing is written if the block raises, or without the option.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--write", type=Path)
    options, sys.argv[1:] = parser.parse_known_args()
    if options.write is None:
        yield
        return
    command = _command()
    copy = io.StringIO()
    with contextlib.redirect_stdout(_Both(sys.stdout, copy)):
        yield
    options.write.write_text(
        page(copy.getvalue(), command=command, circumstances=_circumstances()), "utf-8"
    )


def page(output: str, *, command: str, circumstances: str) -> str:
    """Returns the Markdown of one result, with its marker."""
    lines = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
    body = f"`{command}` ({circumstances}):\n\n```text\n{lines}\n```\n"
    return MARKER.format(digest(body)) + body


def digest(body: str) -> str:
    """Returns the digest that the marker of a page has."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _command() -> str:
    """Returns the command line, with no path of this machine in it."""
    words = [str(Path(sys.argv[0]).resolve().relative_to(ROOT))]
    for word in sys.argv[1:]:
        path = Path(word)
        words.append("FOLDER" if path.is_dir() else "FILE" if path.is_absolute() else word)
    return " ".join(["python", *words])


def _circumstances() -> str:
    modules = {
        name: name.replace("scikit-learn", "sklearn").replace("-", "_") for name in LIBRARIES
    }
    versions = [
        f"{name} {version(name)}" for name, module in modules.items() if module in sys.modules
    ]
    machine = f"{len(os.sched_getaffinity(0))} cores {platform.machine()} with a load of {os.getloadavg()[0]:.0f}"
    return ", ".join(
        [f"{datetime.now(UTC):%Y-%m-%d}", machine, f"Python {platform.python_version()}", *versions]
    )


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
