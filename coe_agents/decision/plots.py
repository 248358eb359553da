"""Owns the pictures of decisions: bars of the answers, and the plane of the two uncertainties."""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from coe_agents.measurement.weighting import rank_texts
from coe_agents.text import for_terminal
from coe_agents.types import Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coe_agents.decision.group_decision import GroupDecision

_QUADRANTS: tuple[tuple[Regime, float, float], ...] = (  # regime, and its corner of the plane
    ("consensus", 0.02, 0.02),
    ("conflict", 0.02, 0.98),
    ("ambiguous", 0.98, 0.02),
    ("unknown", 0.98, 0.98),
)
_LOOKS = {
    "answer": ("o", "tab:green"),
    "abstain": ("X", "tab:orange"),
    "escalate": ("^", "tab:purple"),
}
_PARTS = (("coe", "CoE", "o"), ("aleatoric", "aleatoric", "s"), ("epistemic", "epistemic", "^"))
"""The parts of the group's uncertainty, with their labels and markers."""
SHOWN = 6
"""Answers that are shown of each agent; the others are counted."""


def draw_decision(
    decision: GroupDecision, title: str, *, aleatoric_threshold: float, epistemic_threshold: float
) -> Figure:
    """Draws the answers of each agent next to the plane; see `GroupDecision.plot`."""
    n_further = max(0, len(decision.agents) - 3)
    figure = create_figure(9.0, 3.4 + 0.3 * n_further)
    bars, plane = figure.subplots(1, 2, width_ratios=(1.6, 1.0))

    _draw_bars(bars, decision)
    handles, _ = bars.get_legend_handles_labels()
    if handles:
        legend = figure.legend(
            handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=9
        )
        for text in legend.get_texts():
            text.set_parse_math(False)

    _draw_plane(
        plane,
        decision,
        aleatoric_threshold=aleatoric_threshold,
        epistemic_threshold=epistemic_threshold,
    )
    figure.suptitle(for_terminal(title, 70), fontsize=12, fontweight="bold", parse_math=False)
    return figure


def draw_rounds(decision: GroupDecision) -> Figure:
    """Draws the trajectory of a decision; see `GroupDecision.plot_rounds`."""
    figure = create_figure(9.0, 3.4)
    agents, group = figure.subplots(1, 2, sharex=True)
    rounds = [data["round"] for data in decision.trajectory]
    names = set[str]()
    for data in decision.trajectory:
        names.update(data["entropies"])
    for name in sorted(names):
        entropies = [data["entropies"].get(name, math.nan) for data in decision.trajectory]
        agents.plot(rounds, entropies, marker="o", label=for_terminal(name, 30))

    for part, label, marker in _PARTS:
        values = []
        for data in decision.trajectory:
            value = data.get(part)
            values.append(math.nan if value is None else value)
        group.plot(rounds, values, marker=marker, label=label)

    for axes, what in ((agents, "entropy of each agent"), (group, "uncertainty of the group")):
        axes.set_xlabel("round")
        axes.set_ylabel(f"{what} (nats)")
        axes.set_xticks(rounds)
        axes.set_ylim(bottom=0)
        put_legend_above(axes)
    return figure


def put_legend_above(axes: Axes) -> None:
    """Adds a legend where no point of the axes can be."""
    legend = axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_plane(
    axes: Axes, decision: GroupDecision, *, aleatoric_threshold: float, epistemic_threshold: float
) -> None:
    aleatoric = decision.aleatoric or 0.0
    epistemic = decision.epistemic or 0.0
    # too few agents look certain
    if decision.coe is not None and decision.regime is not None:
        marker, colour = _LOOKS[decision.action]
        axes.scatter([aleatoric], [epistemic], marker=marker, color=colour, zorder=3, s=50)

    # the thresholds are in the middle, unless the point lies further out
    right = max(2.0 * aleatoric_threshold, 1.15 * aleatoric)
    top = max(2.0 * epistemic_threshold, 1.15 * epistemic)
    axes.set_xlim(-0.03 * right, right)
    axes.set_ylim(-0.03 * top, top)
    axes.axvline(aleatoric_threshold, color="0.6", linewidth=1, linestyle="--")
    axes.axhline(epistemic_threshold, color="0.6", linewidth=1, linestyle="--")
    for regime, across, up in _QUADRANTS:
        axes.text(
            across,
            up,
            regime,
            transform=axes.transAxes,
            color="0.45",
            ha="left" if across < 0.5 else "right",
            va="bottom" if up < 0.5 else "top",
        )
    axes.set_xlabel("aleatoric: doubt within agents (nats)")
    axes.set_ylabel("epistemic: disagreement")


def _draw_bars(axes: Axes, decision: GroupDecision) -> None:
    ranked = [text for text, _ in rank_texts(decision.support.items())]
    names = list(decision.agents)
    ends = np.zeros(len(names))
    for place, text in enumerate(ranked[:SHOWN]):
        shares = [agent["distribution"].get(text, 0.0) for agent in decision.agents.values()]
        axes.barh(names, shares, left=ends, label=for_terminal(text, 40), color=f"C{place}")
        ends = ends + shares
    if len(ranked) > SHOWN:
        axes.barh(names, 1.0 - ends, left=ends, label="others", color="0.8")
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("share of the agent's responses")
    for label in axes.get_yticklabels():
        label.set_parse_math(False)


def create_figure(width: float, height: float) -> Figure:
    """Returns a figure that a notebook shows by itself; no state of pyplot is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('plots need matplotlib; pip install "coe-agents[plots]"') from error

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return ShownFigure(figsize=(width, height), layout="constrained")
