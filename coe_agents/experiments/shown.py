"""Owns how results look: the same text on a terminal, in a notebook, and in a string."""

from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

_WIDTH = 100


class Shown:
    """A result that is printed by `show`, which takes a console of rich."""

    def show(self, console: "Console") -> None:
        """Prints the result on a console."""
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_WIDTH, highlight=False, force_terminal=False)
        self.show(console)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in lines).strip("\n")

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def create_figure(n_axes: int = 1) -> "tuple[Figure, Sequence[Any]]":
    """Returns a figure of Matplotlib's with axes side by side."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError('pictures need matplotlib; pip install "coe-agents[plots]"') from error
    figure = Figure(figsize=(4.8 * n_axes, 3.6), layout="constrained")
    axes = figure.subplots(1, n_axes, squeeze=False)[0]
    return figure, list(axes)


Clean = Callable[[str], str]
"""Makes a text of a model, or a name, fit for a terminal."""
