"""Owns what the paper prints: the rows of `paper.toml`, and their labels."""

import functools
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from coe_agents.experiments.experiment import Cell, Experiment, Row
from coe_agents.types import JsonObject


def create_experiment(*, name: str, columns: tuple[str, ...], **fields: Any) -> Experiment:
    """Returns an experiment with the paper's rows under the same columns, and the label of its table or figure."""
    return Experiment(
        name=name,
        columns=columns,
        paper=paper_rows(name, columns),
        label=_numbers()[name]["label"],
        **fields,
    )


def paper_rows(name: str, columns: Sequence[str]) -> tuple[Row, ...]:
    """Returns what the paper prints for an experiment, in the order of `columns`; None where it has no number."""
    rows = []
    for row in _numbers()[name]["rows"]:
        rows.append(tuple(row.get(column) for column in columns))
    return tuple(rows)


def band(cell: Cell) -> tuple[float, float]:
    """Returns the ends of what the paper gives as "low to high"."""
    low, high = str(cell).split(" to ")
    return float(low), float(high)


@functools.cache
def _numbers() -> JsonObject:
    source = resources.files("coe_agents.paper").joinpath("paper.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))
