"""Owns what the documentation needs beyond Sphinx: single backticks, formulas, docstrings, the command's reference."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject, PyXRefRole
from sphinx.util.docutils import SphinxDirective, SphinxRole

NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
ROOT = Path(__file__).parents[2]
ENDED_WELL = (0, 3, 4)  # an answer, an abstention, an escalation
COMMAND_PAGE, COMMAND_MARK = "command", "<!-- the command's reference -->"


class CodeRole(SphinxRole):
    """Sets text as code, with a link where it is the name of a documented object; an unknown name is no warning."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if NAME.fullmatch(self.text):
            link = PyXRefRole()
            return link("py:obj", self.rawtext, self.text, self.lineno, self.inliner)
        return [nodes.literal(self.rawtext, self.text, classes=["code"])], []


class RunDirective(SphinxDirective):
    """Runs a command of the package when the site is built, and shows it with what it printed."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        program, *arguments = shlex.split(self.arguments[0])
        if program != "coe-agents":
            raise self.error(
                f'"run" must run coe-agents; got {program!r}. Show other commands as text'
            )
        done = subprocess.run(
            [sys.executable, "-m", "coe_agents", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tempfile.gettempdir(),
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        )
        if done.returncode not in ENDED_WELL:
            raise self.error(
                f"{self.arguments[0]} ended with {done.returncode}: {done.stderr[-2000:]}"
            )
        shown = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
        shown = re.sub(r", \d+\.\d\d s$", "", shown)  # how long this build took, beside other work
        return [nodes.literal_block(shown, f"$ {self.arguments[0]}\n{shown}", language="text")]


def skip_fields(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any
) -> bool | None:
    """Leaves out the fields of a class: its "Attributes:" describe them."""
    is_field = not callable(obj) and not isinstance(obj, property | classmethod | staticmethod)
    return True if what in {"class", "exception"} and is_field else None


def shorten_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Writes the defaults that a dataclass makes anew as "...", so that the signature can be read as Python."""
    if signature and "<factory>" in signature:
        signature = re.sub(r"~[\w.]+\.", "", signature.replace("<factory>", "..."))
    return signature, returns


def translate_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Turns what docstrings take from Markdown into reStructuredText: tables, indented blocks, and bars in formulas."""
    translated: list[str] = []
    rows: list[str] = []
    for line in lines:
        if line.startswith("|"):
            rows.append(line)
            continue
        translated += _table(rows)
        rows = []
        starts_block = line.startswith("    ") and len(translated) > 1 and not translated[-1]
        if starts_block and translated[-2] and not translated[-2].startswith((" ", "..")):
            translated[-1:] = ["", "::", ""]
        is_code = line.lstrip().startswith((">>>", "..."))
        translated.append(line if is_code else line.replace("|", r"\|"))
    lines[:] = [*translated, *_table(rows)]


def _table(rows: list[str]) -> list[str]:
    """Returns a Markdown table as a list-table."""
    if not rows:
        return []
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in rows
        if set(row) - set("|-: ")
    ]
    table = [".. list-table::", "   :header-rows: 1", ""]
    for row in cells:
        table += [f"   {'*' if place == 0 else ' '} - {cell}" for place, cell in enumerate(row)]
    return [*table, ""]


def math_to_html(visitor: Any, node: nodes.Node) -> None:
    """Writes a formula as MathML, which browsers show without a script."""
    is_block = isinstance(node, nodes.math_block)
    mathml = latex2mathml.tex2mathml(node.astext(), as_block=is_block)
    visitor.body.append(f'<div class="math">{mathml}</div>' if is_block else mathml)
    raise nodes.SkipNode


def insert_command_reference(app: Sphinx, name: str, source: list[str]) -> None:
    """Puts the reference of the command, made from the command itself, in place of the mark on its page."""
    if name == COMMAND_PAGE:
        source[0] = source[0].replace(COMMAND_MARK, command_reference())


def command_reference() -> str:
    """Returns the help of every command as MyST Markdown."""
    import typer
    from typer.cli import get_docs_for_click

    from coe_agents.cli.app import app

    command = typer.main.get_command(app)
    with command.make_context("coe-agents", [], resilient_parsing=True) as context:
        text = get_docs_for_click(
            obj=command, ctx=context, indent=1, name="coe-agents", title="All commands"
        )
    for (
        name,
        one,
    ) in command.commands.items():  # the list of commands shows the first words of each only
        summary = (one.help or "").strip().partition("\n\n")[0]
        text = re.sub(
            rf"^\* `{name}`:.*$",
            lambda _, s=summary, n=name: f"* `{n}`: {s}",
            text,
            count=1,
            flags=re.M,
        )
    return text.replace("```console", "```text")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers all of it."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.add_role("code", CodeRole(), override=True)
    app.add_directive("run", RunDirective)
    app.add_html_math_renderer("mathml", (math_to_html, None), (math_to_html, None))
    app.connect("autodoc-process-docstring", translate_docstring, priority=400)  # before napoleon's
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("source-read", insert_command_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
