"""Owns how an experiment looks on a terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.cli.terminal import clean, create_console, print_lines
from coe_agents.experiments.experiment import PAPER, Experiment
from coe_agents.experiments.output import caption_of, format_cell
from coe_agents.text import quantity


def show_experiment(experiment: Experiment, written: Sequence[Path] = ()) -> None:
    """Prints the title, the table with the paper's rows in another colour, the notes below it, and what was written.

    Columns that do not fit a narrow terminal are omitted, from the right, and counted.
    """
    console = create_console()
    n_heads = len(experiment.heads)
    unbounded = console.options.update(width=10_000)
    widths = {n: console.measure(_table(experiment, n), options=unbounded).maximum for n in range(n_heads, 1, -1)}
    n_shown = next((n for n, width in widths.items() if width <= console.width - 2), 1)
    console.print()
    console.print(Text(clean(experiment.title), style="bold"))
    console.print(Padding(_table(experiment, n_shown), (0, 0, 0, 2)))
    left_out = (
        [f"{quantity(n_heads - n_shown, 'more column')} in a wider terminal and in the files"]
        if n_shown < n_heads
        else []
    )
    for text in (*left_out, *caption_of(experiment)):
        console.print(Padding(Text(clean(text), style="dim"), (0, 0, 0, 2)))
    for path in written:
        print_lines(f"  {path}")


def _table(experiment: Experiment, n_columns: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in experiment.heads[:n_columns]:
        table.add_column(clean(head), no_wrap=True)
    for line in experiment.lines():
        style = "yellow" if PAPER in line else ""
        table.add_row(*(Text(clean(format_cell(cell)), style=style) for cell in line[:n_columns]))
    return table
