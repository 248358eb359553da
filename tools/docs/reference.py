"""Owns the reference as Markdown: each public name as it is declared, with its first paragraph."""

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from ruff import find_ruff_bin

from tools.docs.blocks import ROOT, page_above

__all__ = ["reference"]

DECORATORS = {"classmethod", "cached_property", "dataclass", "property", "staticmethod"}
"""Those that say how a thing is used."""
BETWEEN = "# ----"
"""What separates two stubs while they are formatted."""


class Definition(NamedTuple):
    """Where a name is defined, the statement that does it, and its docstring."""

    file: Path
    statement: ast.stmt
    docstring: str


def reference(module: str, only: str = "", without: str = "") -> None:
    """Prints the public names of a module, or `only` those, or all `without` some; names are separated by spaces."""
    names = only.split() or [name for name in public_names(module) if name not in without.split()]
    above = page_above()
    level = len(re.findall(r"^(#+) ", above, re.MULTILINE)[-1]) + 1
    if not only:
        print(first_paragraph(inspect.getdoc(importlib.import_module(module))), end="\n\n")
    names.sort(key=str.lower)
    definitions = [definition_of(module, name) for name in names]
    stubs = format_stubs([ast.unparse(face(each.statement)) for each in definitions])
    entries = [
        entry(f"{'#' * level} `{name}`", definition, stub)
        for name, definition, stub in zip(names, definitions, stubs, strict=True)
    ]
    print("\n\n".join(entries))


def public_names(module: str) -> list[str]:
    """Returns `__all__`; without one, the classes and functions that the module defines."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    return [
        statement.name
        for statement in _parse(_file(module)).body
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not statement.name.startswith("_")
    ]


def entry(heading: str, definition: Definition, stub: str) -> str:
    """Returns the section of one name."""
    source = definition.file.relative_to(ROOT).as_posix()
    summary = first_paragraph(definition.docstring)
    parts = [heading, summary, f"```python\n{stub}\n```", f"[Source](../../{source})"]
    return "\n\n".join(part for part in parts if part)


def definition_of(module: str, name: str) -> Definition:
    """Returns where a name of a module is defined."""
    value = getattr(importlib.import_module(module), name)
    definition = find_definition(getattr(value, "__module__", module), name)
    match definition.statement:
        case ast.Assign(value=ast.Call(args=[ast.Name(id=given), *_])) if inspect.isfunction(value):
            return _as_called(find_definition(value.__module__, given), value)
    return definition


def _as_called(definition: Definition, function: FunctionType) -> Definition:
    """Returns the definition of a function that is made from another one, whose arguments it takes."""
    statement = definition.statement
    assert isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    kind = ast.AsyncFunctionDef if inspect.iscoroutinefunction(function) else ast.FunctionDef
    returned = inspect.signature(function).return_annotation
    made = ast.copy_location(kind(**dict(ast.iter_fields(statement))), statement)
    made.name = function.__name__
    made.returns = ast.Name(getattr(returned, "__name__", str(returned)))
    return Definition(definition.file, made, inspect.getdoc(function) or "")


def find_definition(module: str, name: str) -> Definition:
    """Returns where a name is defined, also if the module imports it from another one of the package."""
    file = _file(module)
    statements = _parse(file).body
    for place, statement in enumerate(statements):
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if (
                statement.name == name
            ):
                return Definition(file, statement, ast.get_docstring(statement) or "")
            case (
                ast.Assign(targets=[ast.Name(id=target)])
                | ast.AnnAssign(target=ast.Name(id=target))
            ) if target == name:
                return Definition(file, statement, _docstring_after(statements[place + 1 :]))
            case ast.ImportFrom(module=str(imported), names=aliases):
                for alias in aliases:
                    if name == (alias.asname or alias.name):
                        return find_definition(imported, alias.name)
    raise LookupError(f'"{module}" must define or import "{name}"; it does neither')


def _docstring_after(statements: list[ast.stmt]) -> str:
    match statements:
        case [ast.Expr(value=ast.Constant(value=str(text))), *_]:
            return inspect.cleandoc(text)
    return ""


def face(statement: ast.stmt) -> ast.stmt:
    """Returns what a user sees of a definition: no bodies, nothing private, of a docstring the first paragraph."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        statement.decorator_list = _telling(statement.decorator_list)
        statement.body = [ast.Expr(ast.Constant(...))]
        catch_all = statement.args.kwarg
        # it only explains names that are gone
        if catch_all is not None and ast.unparse(catch_all).endswith(": Never"):
            statement.args.kwarg = None
        return statement
    if not isinstance(statement, ast.ClassDef):
        return statement
    members: list[ast.stmt] = []
    for member in statement.body:
        match member:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_public(name):
                docstring = first_paragraph(ast.get_docstring(member))
                face(member)
                if docstring:
                    member.body = [ast.Expr(ast.Constant(docstring))]
                members.append(member)
            case ast.AnnAssign(target=ast.Name(id=name)) if _is_public(name):
                members.append(member)
    statement.decorator_list = _telling(statement.decorator_list)
    statement.body = members or [ast.Expr(ast.Constant(...))]
    return statement


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in {"__init__", "__call__"}


def _telling(decorators: list[ast.expr]) -> list[ast.expr]:
    return [each for each in decorators if ast.unparse(each).partition("(")[0] in DECORATORS]


def format_stubs(stubs: list[str]) -> list[str]:
    """Returns stubs as ruff formats them, all in one process."""
    formatted = subprocess.run(
        [find_ruff_bin(), "format", "--stdin-filename=stub.pyi", "--line-length=88", "-"],
        input=f"\n{BETWEEN}\n".join(stubs),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [stub.strip("\n") for stub in formatted.split(BETWEEN)]


def first_paragraph(docstring: str | None) -> str:
    """Returns the first paragraph of a docstring as one line."""
    return " ".join((docstring or "").partition("\n\n")[0].split())


def _file(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f'"{module}" must be a module of the package; no such file exists')
    return Path(spec.origin)


def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))
