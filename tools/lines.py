"""Prints the lines of Python in each package of `coe_agents`: code, docstrings and blank lines of all tracked files.

    python -m tools.lines [REVISION]

With a revision of git, such as a tag, a second column shows what was there then, and a third the difference.
"""

import argparse
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

FOLDER = "coe_agents"
MOST = 38_500
"""The budget: so many lines the package may have."""


def lines_now() -> Counter[str]:
    """Returns the lines of each package in the files as they are."""
    return _count((path, Path(path).read_bytes()) for path in _paths("ls-files", FOLDER) if Path(path).is_file())


def lines_at(revision: str) -> Counter[str]:
    """Returns the lines of each package at a revision."""
    paths = _paths("ls-tree", "-r", "--name-only", revision, FOLDER)
    return _count((path, _git("show", f"{revision}:{path}")) for path in paths)


def _count(files: Iterable[tuple[str, bytes]]) -> Counter[str]:
    counts = Counter[str]()
    for path, content in files:
        _, package, *inside = path.split("/")
        counts[package if inside else "(modules)"] += content.count(b"\n")
    return counts


def _paths(*arguments: str) -> list[str]:
    return [path for path in _git(*arguments).decode().splitlines() if path.endswith(".py")]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Prints the lines of Python in each package.")
    parser.add_argument("revision", nargs="?", help="what to compare with, as git names it")
    revision = parser.parse_args().revision
    now, then = lines_now(), Counter[str]() if revision is None else lines_at(revision)
    print(f"{'package':16}{'lines':>8}" + ("" if revision is None else f"{revision[:12]:>14}{'change':>8}"))
    for package in [*sorted({*now, *then}), "total"]:
        own, before = (found.total() if package == "total" else found[package] for found in (now, then))
        print(f"{package:16}{own:8}" + ("" if revision is None else f"{before:14}{own - before:+8}"))
    print(f"{'budget':16}{MOST:8}")


if __name__ == "__main__":
    main()
