"""Prints the size of the house and the density of its text, against their budgets.

    python -m tools.size [REVISION]

Lines have no budget; code tokens have one, and so has what makes a line hard to read. A token is one of `tokenize`
without layout; docstrings, comments and blank lines are not code. An f-string counts as Python 3.12 reads it, on every
Python: its parts, its braces and the tokens of its expressions (the sums of Python 3.11 and 3.12 differ by less than
one in 10,000). With a revision of git, such as a tag, a further column
shows what was there then.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coe_agents._ring import ROOMS

PACKAGE, TESTS = "coe_agents", "tests"

FOUNDATION = {"types", "errors", "text", "checks", "files", "activity", "extensions"}
FOUNDATION |= {"_first_use", "_removed", "_ring", "_steps"}
"""The bottom layers, which everything may use: arrows to them say nothing about the structure.

Nor do arrows from a room of the ring: it may use all of the core, and nothing uses it.
"""

MOST_LINES = 60
"""A function with more lines of code is a long one."""
MOST_PARAMETERS = 12
"""A function with more parameters is a wide one."""

BUDGET = {
    "tokens": 339_600,
    "tokens of tests": 387_700,
    "tokens a line": 8.8,
    "tokens a line of tests": 9.6,
    "comprehensions per 1,000 lines": 31.5,
    "conditional expressions per 1,000 lines": 21.5,
    "nested comprehensions": 3,
    "nested conditional expressions": 0,
    "assignments of three": 4,
    "long functions": 1,
    "wide functions": 5,
    "public names": 107,
    "public names at the top": 36,
    "arrows above the foundation": 116,
}
"""The most that there may be of each, in the package unless it says tests."""

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_IS_FSTRING = re.compile(r"[rR]?[fF][rR]?[\"']")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """What was counted in the package and in its tests.

    Attributes:
        package: How often each thing of `BUDGET` is there, and "code lines".
        tests: The same of the tests.
        names: The public names, by package; those at the top are of the package "__init__".
        arrows: The packages that each package imports from. A single module counts as a package.
    """

    package: Counter[str] = field(default_factory=Counter)
    tests: Counter[str] = field(default_factory=Counter)
    names: dict[str, set[str]] = field(default_factory=dict)
    arrows: dict[str, set[str]] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, float]:
        """The numbers that have a budget, by their names there."""
        lines = max(self.package["code lines"], 1)
        lines_of_tests = max(self.tests["code lines"], 1)
        counted = {name: self.package[name] for name in BUDGET if name in self.package}
        return {
            **dict.fromkeys(BUDGET, 0),
            **counted,
            "tokens of tests": self.tests["tokens"],
            "tokens a line": round(self.package["tokens"] / lines, 2),
            "tokens a line of tests": round(self.tests["tokens"] / lines_of_tests, 2),
            "comprehensions per 1,000 lines": round(
                1000 * self.package["comprehensions"] / lines, 1
            ),
            "conditional expressions per 1,000 lines": round(
                1000 * self.package["conditional expressions"] / lines, 1
            ),
            "public names": len(set[str]().union(*self.names.values())),
            "public names at the top": len(self.names.get("__init__", ())),
            "arrows above the foundation": sum(
                len(imported - FOUNDATION)
                for package, imported in self.arrows.items()
                if package not in ROOMS
            ),
        }


def measure_size(revision: str | None = None) -> Size:
    """Returns the size of the files as they are, or at a revision."""
    size = Size()
    for path, source in _files(revision):
        if path.startswith(f"{TESTS}/"):
            size.tests += count(source)
            continue
        size.package += count(source)
        package = path.split("/")[1].removesuffix(".py")
        tree = ast.parse(source)
        for statement in tree.body:
            size.names.setdefault(package, set()).update(_public_names(statement))
        for node in ast.walk(tree):
            size.arrows.setdefault(package, set()).update(_imported(node))
        size.arrows[package].discard(package)
    return size


def count(source: str) -> Counter[str]:
    r"""Returns how often each thing of `BUDGET` is in a file, and its "code lines".

    Example:
        >>> counted = count('"A docstring."\nx = f"{a} b"  # a comment\n')
        >>> counted["tokens"], counted["code lines"]
        (8, 1)
    """
    tree = ast.parse(source)
    n_tokens, lines = _count_tokens(source, _docstring_lines(tree))
    counted = Counter({"tokens": n_tokens, "code lines": len(lines)})
    for node in ast.walk(tree):
        match node:
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                counted["comprehensions"] += 1
                counted["nested comprehensions"] += _holds(node, _COMPREHENSIONS)
            case ast.IfExp():
                counted["conditional expressions"] += 1
                counted["nested conditional expressions"] += _holds(node, (ast.IfExp,))
            case ast.Assign(targets=[ast.Tuple(elts=names), *_], value=ast.Tuple()):
                counted["assignments of three"] += len(names) >= 3
            case ast.FunctionDef(args=parameters) | ast.AsyncFunctionDef(args=parameters):
                end = node.end_lineno or node.lineno
                n_lines = sum(node.lineno <= line <= end for line in lines)
                named = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
                counted["long functions"] += n_lines > MOST_LINES
                counted["wide functions"] += len(named) > MOST_PARAMETERS
    return counted


def _count_tokens(source: str, docstrings: set[int]) -> tuple[int, set[int]]:
    """Returns the number of code tokens, and the lines that hold any."""
    n_tokens = 0
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _LAYOUT or token.start[0] in docstrings:
            continue
        lines.update(range(token.start[0], token.end[0] + 1))
        # before Python 3.12 an f-string is one token
        if token.type == tokenize.STRING and _IS_FSTRING.match(token.string):
            n_tokens += _count_fstring(token.string)
        else:
            n_tokens += 1
    return n_tokens, lines


def _count_fstring(literal: str) -> int:
    # a literal of one line has line breaks in its expressions only where Python 3.12 wrote it
    is_long = literal.endswith(('"""', "'''"))
    expression = ast.parse(literal if is_long else literal.replace("\n", " "), mode="eval").body
    return _count_parts(expression) if isinstance(expression, ast.JoinedStr) else 1


def _count_parts(literal: ast.JoinedStr) -> int:
    """Returns the tokens of an f-string: its ends, each piece of text, and each expression in its braces."""
    n_tokens = 2
    for part in literal.values:
        if not isinstance(part, ast.FormattedValue):
            n_tokens += 1
            continue
        n_tokens += 2 + _count_expression(part.value)
        if part.conversion != -1:
            n_tokens += 2
        if isinstance(part.format_spec, ast.JoinedStr):
            n_tokens += 1 + _count_parts(part.format_spec) - 2
    return n_tokens


def _count_expression(node: ast.expr) -> int:
    n_tokens, _ = _count_tokens(ast.unparse(node), set())
    return n_tokens


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Returns the lines of strings that are statements of their own: docstrings, and those of attributes."""
    lines = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _holds(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Whether a node has another one of these kinds inside it."""
    return any(isinstance(inner, kinds) for inner in ast.walk(node) if inner is not node)


def _files(revision: str | None) -> Iterator[tuple[str, str]]:
    listing = ["ls-files"] if revision is None else ["ls-tree", "-r", "--name-only", revision]
    for path in _git(*listing, PACKAGE, TESTS).splitlines():
        if not path.endswith(".py"):
            continue
        if revision is not None:
            yield path, _git("show", f"{revision}:{path}")
        elif Path(path).is_file():
            yield path, Path(path).read_text("utf-8")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _public_names(statement: ast.stmt) -> Sequence[str]:
    """Returns the names in an `__all__`; none of any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as names):
            return [str(name) for name in ast.literal_eval(names)]
    return ()


def _imported(node: ast.AST) -> Iterator[str]:
    """Returns the packages of the project that a statement imports from."""
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module == PACKAGE:
            for alias in names:
                yield alias.name if alias.name.islower() else "__init__"
        case ast.ImportFrom(module=str(module)) if module.startswith(f"{PACKAGE}."):
            yield module.split(".")[1]
        case ast.Import(names=names):
            for alias in names:
                if alias.name.startswith(f"{PACKAGE}."):
                    yield alias.name.split(".")[1]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description="Prints code tokens, density, public names and arrows."
    )
    parser.add_argument("revision", nargs="?", help="what to compare with, as git names it")
    revision = parser.parse_args().revision
    columns = [measure_size().totals, BUDGET]
    heads = ["now", "at most"]
    if revision is not None:
        columns.insert(0, measure_size(revision).totals)
        heads.insert(0, revision[:12])
    print(f"{'':42}" + "".join(f"{head:>13}" for head in heads))
    for name in BUDGET:
        print(f"{name:42}" + "".join(f"{column[name]:>13,}" for column in columns))


if __name__ == "__main__":
    main()
