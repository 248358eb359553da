"""Owns what the documentation needs beyond Sphinx: single backticks, formulas, docstrings, what only the site has."""

import ast
import importlib
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject, PyXRefRole
from sphinx.util.docutils import SphinxRole

NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
FOR_SITE = re.compile(r"(<!-- forge -->\n(?:(?!<!-- ).)*)?<!-- site\n(?P<site>.*?)\n-->", re.DOTALL)
"""What only the site shows, and before it what a forge shows in its place."""
REFERENCE = re.compile(r"<!--\{\{ (?P<call>reference\(.*?\)) \}\}-->.*?<!--end-->", re.DOTALL)


class CodeRole(SphinxRole):
    """Sets text as code, with a link where it is the name of a documented object; an unknown name is no warning."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if NAME.fullmatch(self.text):
            link = PyXRefRole()
            return link("py:obj", self.rawtext, self.text, self.lineno, self.inliner)
        return [nodes.literal(self.rawtext, self.text, classes=["code"])], []


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


def read_for_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Puts what only the site has in place of what only a forge shows."""
    text = FOR_SITE.sub(r"\g<site>", source[0])
    text = REFERENCE.sub(_autodoc, text)
    folder = "" if name.startswith("api/") else r"(?:\.\./)?api/"
    link = rf"\[`(?P<name>\w+)`\]\({folder}(?P<page>\w+\.md)#\w+\)"
    source[0] = re.sub(link, lambda found: _link(app, found["name"], found["page"]), text)


def _link(app: Sphinx, name: str, page: str) -> str:
    """Returns a link to a name of the reference, for one that a forge reads as a heading of the page."""
    calls = REFERENCE.finditer((app.srcdir / "api" / page).read_text("utf-8"))
    modules = [_arguments(block["call"])[0] for block in calls]
    owner = next(each for each in modules if hasattr(importlib.import_module(each), name))
    return f"{{py:obj}}`{name} <{owner}.{name}>`"


def _autodoc(block: re.Match[str]) -> str:
    """Returns the directive that writes the reference with whole docstrings, for a block of `tools.docs`."""
    module, options = _arguments(block["call"])
    lines = [f".. automodule:: {module}"]
    if "without" in options:
        lines.append(f"   :exclude-members: {', '.join(options['without'])}")
    if "only" in options:
        lines += ["   :no-members:", ""]
    for name in options.get("only", []):
        is_class = isinstance(getattr(importlib.import_module(module), name), type)
        lines += [f".. {'autoclass' if is_class else 'autofunction'}:: {module}.{name}", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def _arguments(call: str) -> tuple[str, dict[str, list[str]]]:
    """Returns the module and the options of a call of `reference`."""
    parsed = ast.parse(call, mode="eval").body
    options = {each.arg: each.value.value.split() for each in parsed.keywords}
    return parsed.args[0].value, options


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers all of it."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.add_role("code", CodeRole(), override=True)
    app.add_html_math_renderer("mathml", (math_to_html, None), (math_to_html, None))
    app.connect("autodoc-process-docstring", translate_docstring, priority=400)  # before napoleon's
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("source-read", read_for_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
