"""Owns an experiment as CSV and as a picture, PNG and SVG; text of models in it is escaped."""

import csv
import io
import textwrap
from pathlib import Path

from coe_agents.experiments.experiment import Cell, Experiment
from coe_agents.files import write
from coe_agents.text import for_terminal

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
    writer.writerow([_defuse(head) for head in experiment.heads])
    writer.writerows([["" if cell is None else _defuse(cell) for cell in line] for line in experiment.lines()])
    writer.writerows([f"# {' '.join(line.split())}"] for line in (experiment.title, *caption_of(experiment)))
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
    wide = int(experiment.width * _CHARACTERS_AN_INCH)
    caption = [line for text in caption_of(experiment) for line in textwrap.wrap(_to_line(text), wide)]
    below = _LINE * len(caption) + 0.2
    height = experiment.height + below + _HEAD
    # no state of pyplot's is touched; text stays text in the SVG, and nothing of it is read as mathematics
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": experiment.name, "text.parse_math": False}):
        layout = ConstrainedLayoutEngine(rect=(0.0, below / height, 1.0, experiment.height / height))
        figure = Figure(figsize=(experiment.width, height), layout=layout)
        experiment.draw(figure)
        figure.text(0.5, 1 - 0.12 / height, _to_line(experiment.title), ha="center", va="top", fontsize=13)
        figure.text(0.01, 0.08 / height, "\n".join(caption), ha="left", va="bottom", fontsize=8, color="dimgrey")
        paths = [folder / f"{experiment.name}.{kind}" for kind in ("png", "svg")]
        for path in paths:
            figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def caption_of(experiment: Experiment) -> list[str]:
    """Returns the caption of a table and a picture: the paper's label, the notes, the settings."""
    label = [f"The paper's {experiment.label}"] if experiment.label else []
    return [*label, *experiment.notes, "; ".join(f"{name}: {value}" for name, value in experiment.settings.items())]


def format_cell(cell: Cell) -> str:
    """Returns a cell as tables show it: three decimals, "-" for what could not be computed."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _to_line(text: str) -> str:
    return for_terminal(text).replace("\ufffd", "")


def _defuse(cell: Cell) -> Cell:
    if isinstance(cell, str) and (cell.lstrip().startswith(_FORMULA) or cell.startswith(("\t", "\r", "\n"))):
        return f"'{cell}"
    return cell
