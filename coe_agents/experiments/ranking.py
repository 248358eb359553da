"""Owns the figures of several metrics over one group, and how their AUROC is drawn."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coe_agents.evaluation.metrics.bootstrap import RETENTIONS, estimate_all
from coe_agents.experiments.experiment import Cell, Row
from coe_agents.experiments.groups import JudgedGroup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANKING_COLUMNS = (
    "AUROC",
    "AUROC low",
    "AUROC high",
    "AURAC",
    "paper's AURAC",
    *(f"{share:.0%}" for share in RETENTIONS),
    "less CoE's",
    "less CoE's low",
    "less CoE's high",
)
"""AUROC with its 95 % interval, both areas, accuracy at each retention, and AUROC less that of CoE (paired)."""

N_RESAMPLES = 1000


def ranking_rows(group: JudgedGroup, metrics: Mapping[str, str], *, n_resamples: int = N_RESAMPLES) -> list[Row]:
    """Returns a row for each metric: its name, and `RANKING_COLUMNS`.

    Args:
        group: Clustered and judged.
        metrics: Estimators by the names that the rows have.
        n_resamples: Of the bootstrap behind the intervals.
    """
    vectors = {name: group.values(estimator) for name, estimator in metrics.items()}
    known = {name: vector for name, vector in vectors.items() if vector is not None}
    found, differences = estimate_all(group.correct, known, reference="CoE", n_resamples=n_resamples)
    rows: list[Row] = []
    for name in metrics:
        if name not in found:
            rows.append((name, *[None] * len(RANKING_COLUMNS)))
            continue
        of = found[name]
        shares = [of[f"accuracy at {share}"][0] for share in RETENTIONS]
        areas = [of["aurac"][0], of["paper_aurac"][0]]
        less = differences[name]["auroc"] if name in differences else (math.nan,) * 3
        rows.append((name, *map(plain, (*of["auroc"], *areas, *shares, *less))))
    return rows


def plain(value: float) -> Cell:
    """Returns a number, or None for NaN."""
    return None if math.isnan(value) else float(value)


def draw_aurocs(
    axes: "Axes", rows: Sequence[Mapping[str, Cell]], paper: Mapping[Cell, Cell], *, title: str, legend: bool = False
) -> None:
    """Draws AUROC by metric as bars with 95 % intervals, and the paper's numbers as diamonds.

    Args:
        axes: Where.
        rows: By column; "metric" and the three of AUROC.
        paper: The paper's AUROC by metric.
        title: Of the axes.
        legend: Whether to explain the marks.
    """
    names = [str(row["metric"]) for row in rows]
    for place, row in enumerate(rows):
        value, low, high = (row[column] for column in ("AUROC", "AUROC low", "AUROC high"))
        if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
            colour = "tab:purple" if row["metric"] == "CoE" else "tab:blue"
            axes.barh(place, value, color=colour, alpha=0.75)
            axes.errorbar(value, place, xerr=[[value - low], [high - value]], color="black", capsize=2, linewidth=1)
        else:
            axes.text(0.02, place, "not computable", va="center", fontsize=8, color="grey")
        theirs = paper.get(row["metric"])
        if isinstance(theirs, float):
            axes.plot(theirs, place, "D", color="tab:orange", markeredgecolor="black", zorder=3)
    diamond = axes.plot([], [], "D", color="tab:orange", markeredgecolor="black", label="the paper's")
    chance = axes.axvline(0.5, color="grey", linestyle=":", linewidth=1, label="chance")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("AUROC, with its 95 % interval")
    axes.set_title(title, fontsize=10)
    if legend:
        axes.figure.legend(handles=[*diamond, chance], loc="upper right", ncols=2, fontsize=8)
