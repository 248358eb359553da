"""Owns the experiment as a value: a table with the rows of the paper (`paper.toml`) next to ours, and its picture."""

import functools
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

from coe_agents.checks import require

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"
"""Matplotlib's, which is not installed with everything, and imported when something is drawn."""
Cell = str | int | float | None
"""None is what could not be computed; it is shown as "-"."""
Row = tuple[Cell, ...]

HERE, PAPER = "here", "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One table or figure of the paper, or one beyond it, with the numbers found here.

    Attributes:
        name: What `coe-agents reproduce` calls it, and its files: ASCII letters, digits, "-" and "_".
        columns: The heads; the first `n_keys` identify a row.
        rows: Ours.
        draw: Draws them; the figure is as wide as `width` and as high as `height`, in inches. None: no picture.
        settings: What the numbers depend on, in the order in which they are shown.
        notes: What a reader must know to read them.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    draw: Callable[[Figure], None] | None = None
    n_keys: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    width: float = 9.0
    height: float = 5.0

    def __post_init__(self) -> None:
        is_plain = re.fullmatch(r"[A-Za-z0-9][\w-]*", self.name, re.ASCII) is not None
        must = '"name" must be letters, digits, "-" and "_", as files are named by it'
        require(is_plain, must, self.name, 'Put other text into "title"')

    @property
    def paper(self) -> tuple[Row, ...]:
        """The paper's rows under the same columns; None where it gives no number."""
        return paper_rows(self.name, self.columns)

    @property
    def label(self) -> str:
        """The label of the paper's table, figure or section, as its source spells it; "" where it has none."""
        return str(_numbers().get(self.name, {}).get("label", ""))

    @property
    def heads(self) -> tuple[str, ...]:
        source = ("source",) if self.paper else ()
        return (*self.columns[: self.n_keys], *source, *self.columns[self.n_keys :])

    def lines(self) -> list[Row]:
        """Returns our rows, each with the paper's row of the same keys under it; the paper's other rows follow."""
        k, lines, left = self.n_keys, list[Row](), list(self.paper)
        if not left:
            return list(self.rows)
        for row in self.rows:
            lines.append((*row[:k], HERE, *row[k:]))
            for theirs in [theirs for theirs in left if theirs[:k] == row[:k]]:
                lines.append((*theirs[:k], PAPER, *theirs[k:]))
                left.remove(theirs)
        return [*lines, *((*theirs[:k], PAPER, *theirs[k:]) for theirs in left)]


def plain(value: float) -> Cell:
    """Returns a number, or None for NaN."""
    return None if math.isnan(value) else float(value)


def paper_rows(name: str, columns: Sequence[str]) -> tuple[Row, ...]:
    """Returns what the paper prints for an experiment, in the order of `columns`; None where it has no number."""
    return tuple(tuple(row.get(column) for column in columns) for row in _numbers().get(name, {}).get("rows", ()))


def band(cell: Cell) -> tuple[float, float]:
    """Returns the ends of what the paper gives as "low to high"."""
    low, high = str(cell).split(" to ")
    return float(low), float(high)


@functools.cache
def _numbers() -> dict[str, Any]:
    source = resources.files("coe_agents.experiments").joinpath("paper.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))
