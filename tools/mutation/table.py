"""Owns the tables of results by module and of explained survivors, as Markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from tools.mutation.changes import Change
from tools.mutation.explanations import ANY, Explanation, Explanations
from tools.mutation.results import Result

BEGIN, END = "<!-- written by `python -m tools.mutation --write`: from here -->", "<!-- to here -->"


def count_modules(found: Mapping[Change, Result], explanations: Explanations) -> str:
    """Returns a table of what became of the changes of each module."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for change, result in found.items():
        for module in (change.module, "all"):
            counts[module].update(
                {"changes", "killed" if result.is_kill else "survived", result.outcome}
            )
            counts[module]["explained"] += (
                not result.is_kill and explanations.find(change) is not None
            )
    rows = [
        [
            f"`{module}`" if module != "all" else module,
            *(str(counts[module][column]) for column in _COLUMNS),
        ]
        for module in [*sorted(counts.keys() - {"all"}), "all"]
    ]
    return _table(["module", *_COLUMNS.values()], rows)


_COLUMNS = {
    "changes": "changes",
    "killed": "killed",
    "hung": "of these, hung",
    "survived": "survived",
    "not reached": "of these, not reached",
    "explained": "explained",
}


def list_explanations(explanations: Iterable[Explanation]) -> str:
    """Returns a table of the reasons; changes of a function that have the same one share a row."""
    groups = groupby(explanations, lambda each: (each.module, each.function, each.why))
    rows = (
        [f"`{module}`", f"`{function}`", "; ".join(_code(each.pattern) for each in group), why]
        for (module, function, why), group in groups
    )
    return _table(["module", "function", "change", "why"], rows)


def write_between_markers(path: Path, text: str) -> None:
    """Replaces what stands between the markers of a page.

    Raises:
        ValueError: If the page has no markers.
    """
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} must have the lines {BEGIN!r} and {END!r}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def _code(pattern: str) -> str:
    return "all" if pattern == ANY else f"`{' '.join(pattern.split())}`"


def _table(names: list[str], rows: Iterable[list[str]]) -> str:
    return "\n".join(_lines(names, rows))


def _lines(names: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    for row in (names, ["---"] * len(names), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
