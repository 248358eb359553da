"""Owns the run of the tests in which all of the package's wording is "x": no code may read a sentence of ours.

With `COE_PLAIN=1` the package is compiled so that the message and the hint of each exception that it creates are "x",
and so are the words of `policy.wording`, of `policy.proposal_wording` and of what is withheld. Logic that reads a
sentence back then decides otherwise, and its test fails. `match=` of `pytest.raises` is not looked at where the package
itself raised: the class still is. A test that is about wording has the mark `wording`, and is left out.

What policies and bounds write themselves around these words stays ("confident enough: x is at most 0.5 nats"), and so
do the messages of our exceptions outside `CoEError` that have other arguments than words, such as those of `serve`.
"""

import ast
import functools
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import coe_agents

PLAIN = "x"
_PACKAGE = Path(coe_agents.__file__).parent
_WORDS: dict[str, Sequence[str]] = {
    "coe_agents.measurement.wording": (
        "who_says_what",
        "regime_in_words",
        "lacking_in_words",
        "coe_in_words",
        "parts_in_words",
        "action_in_words",
        "contested_in_words",
    ),
    "coe_agents.text": ("decomposition",),
    "coe_agents.middleware.withheld": ("contested_in_words", "rule_in_words", "_why"),
    "coe_agents.decision.refusal": ("refusal", "why_not"),
}
"""The functions whose words are "x"; where they return "", there is nothing to say, which is no wording."""


_BUILT_IN = ("ValueError", "TypeError", "KeyError", "RuntimeError", "ImportError", "kind")
"""The exceptions whose arguments are words alone; `coe_agents.checks` calls one `kind`."""


class _Plain(ast.NodeTransformer):
    """Replaces the message of each exception that is created by "x"; those of `CoEError` see to it themselves."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _BUILT_IN and node.args:
            node.args = [ast.copy_location(ast.Constant(PLAIN), node.args[0])]
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module without its words; never from a cache, which holds them."""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        tree = ast.fix_missing_locations(_Plain().visit(ast.parse(source)))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name in _WORDS.get(module.__name__, ()):
            setattr(module, name, _without_words(getattr(module, name)))
        if module.__name__ == "coe_agents.errors":
            module.CoEError.__init__ = _without_message(module.CoEError.__init__)


def _without_words(worded: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(worded)
    def plain(*args: Any, **options: Any) -> str:
        return PLAIN if worded(*args, **options) else ""

    return plain


def _without_message(create: Callable[..., None]) -> Callable[..., None]:
    def plain(self: Any, message: str, *, hint: str = "", retryable: bool | None = None) -> None:
        create(self, PLAIN, hint=PLAIN if hint else "", retryable=retryable)

    return plain


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("coe_agents."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Makes all that is imported of the package from here on plain, and `pytest.raises` fit for it."""
    sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
    pytest.raises = _raises


def _raises(expected: Any, *, match: Any = None) -> Any:
    """Is `pytest.raises`, but does not look at the message of an exception that the package raised."""

    def is_as_said(error: BaseException) -> bool:
        return match is None or _is_ours(error) or re.search(match, str(error)) is not None

    return pytest.RaisesExc(expected, check=is_as_said)


def _is_ours(error: BaseException) -> bool:
    """Whether the package raised an exception: the last of its frames, or one on the way, is in one of its files."""
    traceback = error.__traceback__
    while traceback is not None:
        if Path(traceback.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
            return True
        traceback = traceback.tb_next
    return False
