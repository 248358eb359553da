"""Draws the four regimes, each by an example that is measured: `python docs/draw_quadrants.py [FOLDER]`.

It writes quadrants-light.svg and quadrants-dark.svg, for pages with a light and with a dark background.
"""

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from coe_agents.uncertainty import collaborative_entropy, regime

ANSWERS = ("Canberra", "Sydney", "Perth")
COLOURS = ("#3b7dd8", "#e08a2c", "#7b5fb8")
EXAMPLES = {
    "conflict": (
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
        "each is confident, but they disagree",
        "debate, or ask a stronger model or a person",
    ),
    "unknown": (
        [[0.1, 0.75, 0.15], [0.75, 0.15, 0.1], [0.1, 0.15, 0.75]],
        "each is unsure, and they disagree",
        "do not answer",
    ),
    "consensus": (
        [[1.0, 0.0, 0.0], [0.95, 0.05, 0.0], [1.0, 0.0, 0.0]],
        "each is confident, and they agree",
        "answer",
    ),
    "ambiguous": (
        [[0.5, 0.5, 0.0], [0.6, 0.4, 0.0], [0.45, 0.55, 0.0]],
        "each is unsure, between the same answers",
        "sample more, or clarify the question",
    ),
}
THRESHOLDS = {"aleatoric_threshold": 0.5, "epistemic_threshold": 0.3}


def draw(path: Path, *, ink: str, faint: str) -> None:
    """Writes one picture; `ink` is the colour of text, `faint` that of frames."""
    mpl.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "coe", "font.family": ["sans-serif"]}
    )
    figure = Figure(figsize=(8.4, 5.4))
    panels = figure.subplots(2, 2)
    figure.subplots_adjust(left=0.12, right=0.99, top=0.93, bottom=0.17, wspace=0.16, hspace=0.75)
    for panel, (name, (distributions, what, then)) in zip(
        panels.flat, EXAMPLES.items(), strict=True
    ):
        coe = collaborative_entropy(distributions)
        if regime(coe.aleatoric, coe.epistemic, **THRESHOLDS) != name:
            raise ValueError(
                f"the example of {name!r} must be one; aleatoric {coe.aleatoric}, epistemic {coe.epistemic}"
            )
        left = [0.0, 0.0, 0.0]
        for column, colour in enumerate(COLOURS):
            widths = [row[column] for row in distributions]
            panel.barh(["A", "B", "C"], widths, left=left, color=colour, height=0.68)
            left = [x + width for x, width in zip(left, widths, strict=True)]
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        panel.set_xticks([])
        panel.tick_params(colors=ink, length=0)
        for spine in panel.spines.values():
            spine.set_color(faint)
        panel.set_title(name, color=ink, fontweight="bold", fontsize=13, loc="left")
        panel.set_title(
            f"{coe.aleatoric:.2f} + {coe.epistemic:.2f} nats", color=ink, fontsize=10, loc="right"
        )
        panel.set_xlabel(f"{what}\n→ {then}", color=ink, fontsize=10, loc="left")
    handles = [
        Patch(color=colour, label=name) for colour, name in zip(COLOURS, ANSWERS, strict=True)
    ]
    figure.legend(
        handles=handles,
        loc="lower right",
        ncols=3,
        frameon=False,
        labelcolor=ink,
        bbox_to_anchor=(0.99, -0.01),
    )
    figure.text(0.12, 0.025, "aleatoric: doubt within each model  →", color=ink, fontsize=11)
    figure.text(
        0.025,
        0.17,
        "epistemic: disagreement between models  →",
        color=ink,
        fontsize=11,
        rotation=90,
    )
    figure.savefig(path, transparent=True, metadata={"Date": None})


def main(folder: Path) -> None:
    """Writes both pictures."""
    draw(folder / "quadrants-light.svg", ink="#24292f", faint="#d0d7de")
    draw(folder / "quadrants-dark.svg", ink="#e6edf3", faint="#444c56")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
