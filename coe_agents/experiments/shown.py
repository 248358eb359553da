"""Owns how results look: the same text on a terminal, in a notebook, and in a string."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from coe_agents.decision.plots import create_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

_WIDTH = 100


class Shown(ABC):
    """A result that is printed by `show`, which takes a console of rich."""

    @abstractmethod
    def show(self, console: "Console") -> None:
        """Prints the result on a console."""

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        # in a notebook it would display the lines, and write none
        console = Console(
            file=out, width=_WIDTH, highlight=False, force_terminal=False, force_jupyter=False
        )
        self.show(console)
        lines = out.getvalue().splitlines()
        return "\n".join(line.rstrip() for line in lines).strip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def create_axes(n: int = 1) -> "tuple[Figure, Sequence[Any]]":
    """Returns a figure of Matplotlib's with axes side by side, which a notebook shows by itself."""
    figure = create_figure(4.8 * n, 3.6)
    return figure, list(figure.subplots(1, n, squeeze=False)[0])
