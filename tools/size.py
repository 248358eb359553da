"""Prints the size of the house: lines of Python, public names, and arrows between packages, against their budgets.

    python -m tools.size [REVISION]

Lines are code, docstrings and blank lines of all tracked files; a public name is one in an `__all__`; an arrow is a
package of `coe_agents` that imports from another. A single module counts as a package. With a revision of git, such as
a tag, further columns show what was there then.
"""

import argparse
import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE, TESTS = "coe_agents", "tests"
BUDGET = {"lines": 39_600, "names": 148, "arrows": 131, "tests": 30_000}
"""The most that there may be of each; arrows are those above the foundation."""
FOUNDATION = {"types", "errors", "text", "checks", "files", "extensions", "_steps"}
"""The bottom layers, which everything may use: arrows to them say nothing about the structure."""


@dataclass
class Size:
    """What was counted, by package.

    Attributes:
        lines: Lines of Python.
        names: Public names.
        arrows: The packages that each imports from.
        tests: Lines of Python of all tests.
    """

    lines: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    arrows: dict[str, set[str]] = field(default_factory=dict)
    tests: int = 0

    @property
    def totals(self) -> dict[str, int]:
        """The numbers that have a budget."""
        return {
            "lines": self.lines.total(),
            "names": self.names.total(),
            "arrows": self.n_arrows(above=True),
            "tests": self.tests,
        }

    def n_arrows(self, *, above: bool = False) -> int:
        """Returns the number of arrows; with `above`, of those that do not lead to the foundation."""
        return sum(len(found - FOUNDATION if above else found) for found in self.arrows.values())


def measure_size(revision: str | None = None) -> Size:
    """Returns the size of the files as they are, or at a revision."""
    size = Size()
    for path, source in _files(revision):
        package = _package(path)
        if path.startswith(f"{TESTS}/"):
            size.tests += source.count("\n")
            continue
        size.lines[package] += source.count("\n")
        tree = ast.parse(source)
        size.names[package] += sum(map(_n_public, tree.body))
        found = {name for node in ast.walk(tree) for name in _imported(node)} - {package}
        size.arrows.setdefault(package, set()).update(found)
    return size


def _files(revision: str | None) -> Iterator[tuple[str, str]]:
    listing = ["ls-files"] if revision is None else ["ls-tree", "-r", "--name-only", revision]
    for path in _git(*listing, PACKAGE, TESTS).splitlines():
        if path.endswith(".py") and (revision is not None or Path(path).is_file()):
            yield path, _git("show", f"{revision}:{path}") if revision else Path(path).read_text("utf-8")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _package(path: str) -> str:
    return path.split("/")[1].removesuffix(".py")


def _n_public(node: ast.stmt) -> int:
    """Returns how many names an `__all__` has; 0 for any other statement."""
    match node:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names) | ast.Tuple(elts=names)):
            return len(names)
    return 0


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module == PACKAGE:
            yield from (f"{alias.name}" if alias.name.islower() else "__init__" for alias in names)
        case ast.ImportFrom(module=str(module)) if module.startswith(f"{PACKAGE}."):
            yield module.split(".")[1]
        case ast.Import(names=names):
            yield from (name.name.split(".")[1] for name in names if name.name.startswith(f"{PACKAGE}."))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Prints lines, public names and arrows.")
    parser.add_argument("revision", nargs="?", help="what to compare with, as git names it")
    revision = parser.parse_args().revision
    sizes = [measure_size(), *([] if revision is None else [measure_size(revision)])]
    print(f"{'':14}" + "   lines names arrows" * len(sizes))
    for package in sorted({name for size in sizes for name in size.lines}):
        rows = ((size.lines[package], size.names[package], len(size.arrows.get(package, ()))) for size in sizes)
        print(f"{package:14}" + "".join(f"{lines:8}{names:6}{arrows:7}" for lines, names, arrows in rows))
    rows = ((size.lines.total(), size.names.total(), size.n_arrows()) for size in sizes)
    print(f"{'all':14}" + "".join(f"{lines:8}{names:6}{arrows:7}" for lines, names, arrows in rows))
    print(f"{'budget':14}{BUDGET['lines']:8}{BUDGET['names']:6}")
    print("arrows above the foundation:", *(size.n_arrows(above=True) for size in sizes))
    print("lines of tests:", *(size.tests for size in sizes), f"(budget {BUDGET['tests']})")


if __name__ == "__main__":
    main()
