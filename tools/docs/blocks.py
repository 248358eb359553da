"""Owns what blocks of a page show: the output of commands and examples, results, the command's help."""

import ast
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["commands", "include", "output", "run"]

ROOT = Path(__file__).parents[2]
ENDED_WELL = (0, 3, 4)  # an answer, an abstention, an escalation
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WRITTEN = re.compile(r"<!--\{\{.*?<!--end-->", re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
NOT_RUN = "# Needs "
"""How a Python block begins that needs more than the package, such as a key."""

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tinyworld's matrices are too small to share
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@dataclass
class Example:
    """The Python blocks of a page, up to where they were run."""

    variables: dict[str, Any] = field(default_factory=lambda: {"__name__": "docs"})
    n_run: int = 0


@dataclass
class Writing:
    """One run of the command.

    Attributes:
        is_check: Whether pictures are compared, and not written.
        examples: Those of each page.
        folder: Where they are run.
    """

    is_check: bool = False
    examples: defaultdict[Path, Example] = field(default_factory=lambda: defaultdict(Example))
    folder: str = "."

    @contextlib.contextmanager
    def begin(self, *, is_check: bool) -> Iterator[None]:
        """Forgets what was run before, and makes a new folder for what is run within."""
        self.is_check = is_check
        self.examples.clear()
        with tempfile.TemporaryDirectory() as self.folder:
            yield


WRITING = Writing()


def run(command: str, hide: str | None = None) -> None:
    """Prints a command of the package and what it printed; what the pattern `hide` finds, such as a time, as "…"."""
    printed = _run(command).lstrip("\n")
    _print_text(f"$ {command}\n{printed}", hide)


@functools.cache
def _run(command: str) -> str:
    program, *arguments = shlex.split(command)
    if program != "coe-agents":
        raise ValueError(f'"run" must run coe-agents; got {program!r}. Show other commands as text')
    done = subprocess.run(
        [sys.executable, "-m", "coe_agents", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tempfile.gettempdir(),
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
    )
    if done.returncode not in ENDED_WELL:
        raise ValueError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def include(path: str) -> None:
    """Prints a page of results, but for its first line, the marker of the benchmark."""
    _, _, body = (_page().parent / path).read_text("utf-8").partition("\n")
    print(body, end="")


def output(
    hide: str | None = None, within: float = 0.0, picture: str | None = None, alt: str = ""
) -> None:
    """Prints what the Python blocks above printed, and the value of the last line, as a notebook does.

    The blocks are run in order, each once.

    Args:
        hide: A pattern of what differs from run to run; it is shown as "…".
        within: The text stays as it is where only numbers differ, by at most this.
        picture: The file that keeps the last value, a figure.
        alt: What the figure shows, in words.
    """
    page = _page()
    example = WRITING.examples[page]
    blocks = PYTHON_BLOCK.findall(page_above())
    to_run = [block for block in blocks[example.n_run :] if not block.startswith(NOT_RUN)]
    example.n_run = len(blocks)
    value: Any = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(WRITING.folder):
        for block in to_run:
            value = _execute(block, example.variables)
    if picture is not None:
        _keep(value, page.parent / picture)
        print(f"![{alt}]({picture})")
        return
    if value is not None:
        # a data frame as a whole, whatever the width of a terminal
        shown = value.to_string(max_colwidth=60) if hasattr(value, "to_string") else value
        print(shown, file=printed)
    _print_text(printed.getvalue(), hide, within)


def _execute(block: str, variables: dict[str, Any]) -> object:
    """Runs a block; returns the value of its last line, or None if that is a statement."""
    statements = ast.parse(block).body
    last = statements[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(block, "docs", "exec"), variables)
        return None
    before = ast.Module(statements[:-1], type_ignores=[])
    exec(compile(before, "docs", "exec"), variables)
    value: object = eval(compile(ast.Expression(last.value), "docs", "eval"), variables)
    return value


def _keep(figure: Any, path: Path) -> None:
    """Writes a figure, or compares it with the one that is kept."""
    from matplotlib.testing.compare import compare_images

    if not WRITING.is_check:
        figure.savefig(path, bbox_inches="tight")
        return
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, path.name)
        figure.savefig(drawn, bbox_inches="tight")
        # fonts differ a little from one version of Matplotlib to another
        difference = compare_images(str(path), str(drawn), tol=10)
    if difference is not None:
        raise ValueError(
            f"{path.name} is not what its block draws today: {difference}. "
            "Write it anew with `make docs-write`, and commit it"
        )


def commands() -> None:
    """Prints the help of every command."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.core import TyperGroup

    from coe_agents.cli.app import app

    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    context = typer.Context(command, info_name="coe-agents", resilient_parsing=True)
    with context:
        text = get_docs_for_click(
            obj=command, ctx=context, indent=1, name="coe-agents", title="All commands"
        )
    # the list of commands shows the first words of each only
    for name, one in command.commands.items():
        summary = (one.help or "").strip().partition("\n\n")[0]
        entry = f"* `{name}`: {summary}".replace("\\", r"\\")
        text = re.sub(rf"^\* `{name}`:.*$", entry, text, count=1, flags=re.M)
    print(text.replace("```console", "```text").strip())


def _print_text(text: str, hide: str | None, within: float = 0.0) -> None:
    if hide is not None:
        text = re.sub(hide, "…", text, flags=re.MULTILINE)
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    fence = "````" if "```" in lines else "```"
    block = f"{fence}text\n{lines}\n{fence}"
    previous = str(_cog().previous).strip("\n")
    print(previous if differs_little(block, previous, within) else block)


def differs_little(text: str, other: str, within: float) -> bool:
    """Whether two texts differ in numbers only, and in each by at most `within`."""
    if NUMBER.sub("0", text) != NUMBER.sub("0", other):
        return False
    pairs = zip(NUMBER.findall(text), NUMBER.findall(other), strict=True)
    return all(abs(float(one) - float(another)) <= within for one, another in pairs)


def page_above() -> str:
    """Returns what people wrote in the page above the block."""
    lines = _page().read_text("utf-8").splitlines(keepends=True)
    return WRITTEN.sub("", "".join(lines[: _cog().firstLineNum - 1]))


def _cog() -> Any:
    """Returns the module of Cog's that knows the page and the line of the block."""
    return sys.modules["cog"]


def _page() -> Path:
    return Path(_cog().inFile).resolve()
