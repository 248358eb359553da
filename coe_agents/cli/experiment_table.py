"""Owns how an experiment looks on a terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coe_agents.cli.render import clean
from coe_agents.experiments.experiment import PAPER, Experiment
from coe_agents.experiments.tables import shown, under


def show_experiment(experiment: Experiment, *, console: Console | None = None) -> None:
    """Prints the title, the table with the paper's rows in another colour, and what stands under it."""
    console = console or Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in experiment.heads:
        table.add_column(clean(head), overflow="fold")
    for line in experiment.lines():
        style = "yellow" if PAPER in line else ""
        table.add_row(*(Text(clean(shown(cell)), style=style) for cell in line))
    console.print()
    console.print(Text(clean(experiment.title), style="bold"))
    console.print(Padding(table, (0, 0, 0, 2)))
    for text in under(experiment):
        console.print(Padding(Text(clean(text), style="dim"), (0, 0, 0, 2)))
