"""Owns the paper's numbers, which are in `paper.toml` with the label of the table or figure that they are from."""

import functools
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from coe_agents.experiments.experiment import Cell, Row


def paper_rows(name: str, columns: Sequence[str]) -> tuple[Row, ...]:
    """Returns what the paper prints for an experiment, in the order of `columns`; None where it prints nothing.

    Example:
        >>> paper_rows("divergences", ("solver", "divergence", "CoE after", "gain"))[0]
        ('greedy', 'kl', None, 0.39)
    """
    return tuple(tuple(row.get(column) for column in columns) for row in _numbers()[name]["rows"])


def paper_label(name: str) -> str:
    """Returns the label of the paper's table or figure, as its source spells it."""
    return str(_numbers()[name]["label"])


def band(cell: Cell) -> tuple[float, float]:
    """Returns the ends of what the paper gives as "low to high".

    Example:
        >>> band("0.92 to 0.95")
        (0.92, 0.95)
    """
    low, high = str(cell).split(" to ")
    return float(low), float(high)


@functools.cache
def _numbers() -> dict[str, Any]:
    source = resources.files("coe_agents.experiments").joinpath("paper.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))
