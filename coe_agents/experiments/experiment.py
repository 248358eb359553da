"""Owns the experiment as a value: a table, with the rows of the paper next to ours, and its picture.

It is written as CSV, PNG and SVG; text of models in it is escaped.
"""

import csv
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from coe_agents.files import write
from coe_agents.text import for_terminal

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
        paper: The paper's rows under the same columns; None where it gives no number.
        label: The label of the paper's table, figure or section, as its source spells it; "" where it has none.
        draw: Draws them; the figure is as wide as `width` and as high as `height`, in inches. None: no picture.
        settings: What the numbers depend on, in the order in which they are shown.
        notes: What a reader must know to read them.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    paper: tuple[Row, ...] = ()
    label: str = ""
    draw: Callable[[Figure], None] | None = None
    n_keys: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    width: float = 9.0
    height: float = 5.0

    @property
    def heads(self) -> tuple[str, ...]:
        source = ("source",) if self.paper else ()
        return (*self.columns[: self.n_keys], *source, *self.columns[self.n_keys :])

    def lines(self) -> list[Row]:
        """Returns our rows, each with the paper's row of the same keys under it; the paper's other rows follow."""
        unmatched = list(self.paper)
        if not unmatched:
            return list(self.rows)
        lines = []
        for row in self.rows:
            lines.append(self._of_source(row, HERE))
            keys = row[: self.n_keys]
            for of_paper in self.paper:
                if of_paper[: self.n_keys] == keys and of_paper in unmatched:
                    lines.append(self._of_source(of_paper, PAPER))
                    unmatched.remove(of_paper)
        lines += [self._of_source(of_paper, PAPER) for of_paper in unmatched]
        return lines

    def _of_source(self, row: Row, source: str) -> Row:
        """Returns a row with its source after the keys, as in `heads`."""
        return (*row[: self.n_keys], source, *row[self.n_keys :])


def plain(value: float) -> Cell:
    """Returns a number, or None for NaN."""
    return None if math.isnan(value) else float(value)


_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a formula begins, in full width, too."""
_CHARACTERS_AN_INCH = 15.5
_LINE = 0.17
"""Inches that a line of the caption takes."""
_HEAD = 0.45


def write_to(experiment: Experiment, folder: Path) -> list[Path]:
    """Writes an experiment as CSV, and its picture as PNG and SVG, into a folder; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{experiment.name}.csv"
    write(table, to_csv(experiment).encode(errors="replace"))
    return [table, *draw_to(experiment, folder)]


def to_csv(experiment: Experiment) -> str:
    """Returns the lines with full precision; the caption follows, each line a cell of its own after a "#".

    A text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in (experiment.heads, *experiment.lines()):
        writer.writerow(map(_defuse, line))
    for text in (experiment.title, *caption_of(experiment)):
        writer.writerow([f"# {' '.join(text.split())}"])
    return out.getvalue()


def draw_to(experiment: Experiment, folder: Path) -> list[Path]:
    """Draws an experiment with its title above and what it was run under below it; returns the files, if any."""
    if experiment.draw is None:
        return []
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ModuleNotFoundError as error:
        raise ImportError('pictures need matplotlib; pip install "coe-agents[plots]"') from error
    caption: list[str] = []
    for text in caption_of(experiment):
        caption += textwrap.wrap(_to_line(text), int(experiment.width * _CHARACTERS_AN_INCH))
    below = _LINE * len(caption) + 0.2
    height = experiment.height + below + _HEAD
    # no state of pyplot's is touched; text stays text in the SVG, and nothing of it is read as mathematics
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": experiment.name, "text.parse_math": False}
    ):
        layout = ConstrainedLayoutEngine(
            rect=(0.0, below / height, 1.0, experiment.height / height)
        )
        figure = Figure(figsize=(experiment.width, height), layout=layout)
        experiment.draw(figure)
        figure.text(
            0.5, 1 - 0.12 / height, _to_line(experiment.title), ha="center", va="top", fontsize=13
        )
        figure.text(
            0.01, 0.08 / height, "\n".join(caption), va="bottom", fontsize=8, color="dimgrey"
        )
        png = folder / f"{experiment.name}.png"
        svg = png.with_suffix(".svg")
        figure.savefig(png, dpi=130)
        figure.savefig(svg, dpi=130, metadata={"Date": None})
    return [png, svg]


def caption_of(experiment: Experiment) -> list[str]:
    """Returns the caption of a table and a picture: the paper's label, the notes, the settings."""
    caption = list(experiment.notes)
    if experiment.label:
        caption.insert(0, f"The paper's {experiment.label}")
    settings = [f"{name}: {value}" for name, value in experiment.settings.items()]
    return [*caption, "; ".join(settings)]


def format_cell(cell: Cell) -> str:
    """Returns a cell as tables show it: three decimals, "-" for what could not be computed."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _to_line(text: str) -> str:
    return for_terminal(text).replace("\ufffd", "")


def _defuse(cell: Cell) -> Cell:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return cell
    is_formula = cell.lstrip().startswith(_FORMULA) or cell.startswith(("\t", "\r", "\n"))
    return f"'{cell}" if is_formula else cell
