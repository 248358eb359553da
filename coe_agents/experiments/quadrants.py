"""Owns the experiment `quadrants`: four states of a group on the plane of U_A and U_E, as Dirichlets (fig: eu-au)."""

import numpy as np
from scipy.stats import dirichlet

from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.experiments.experiment import Axes, Experiment, Figure, Row
from coe_agents.experiments.paper import paper_label, paper_rows
from coe_agents.uncertainty import collaborative_entropy, regime

_NAME = "quadrants"
_COLUMNS = ("quadrant", "regime", "U_A", "U_E", "CoE")
_THRESHOLDS = {"aleatoric_threshold": 0.5, "epistemic_threshold": 0.3}
_CONCENTRATION = 40.0
_N_DRAWS = 2000
_COLOURS = ("tab:blue", "tab:red", "tab:green")

_SURE, _TORN, _LEANING = (0.96, 0.02, 0.02), (0.4, 0.35, 0.25), (0.72, 0.26, 0.02)


def _rotate(mean: tuple[float, ...]) -> list[tuple[float, ...]]:
    return [(*mean[-k:], *mean[:-k]) if k else mean for k in range(3)]


_MEANS: dict[str, list[tuple[float, ...]]] = {  # of three agents over three clusters
    "Models are confident but disagree.": _rotate(_SURE),
    "We do not know.": _rotate(_LEANING),
    "We are very sure.": [_SURE] * 3,
    "Multiple reasonable answers exist.": [_TORN] * 3,
}


def quadrants(*, seed: int = 0) -> Experiment:
    """Returns mean U_A, U_E and CoE in nats of three agents whose distributions are drawn from Dirichlets.

    The parameters are chosen for the four quadrants, not fitted to anything; each agent's Dirichlet has concentration
    40 and its own mean.
    """
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for quadrant, means in _MEANS.items():
        draws = np.stack([generator.dirichlet(_CONCENTRATION * np.array(mean), _N_DRAWS) for mean in means], axis=1)
        split = collaborative_entropy(draws)
        aleatoric, epistemic = float(np.mean(split.aleatoric)), float(np.mean(split.epistemic))
        rows.append(
            (quadrant, regime(aleatoric, epistemic, **_THRESHOLDS), aleatoric, epistemic, aleatoric + epistemic)
        )

    def draw(figure: Figure) -> None:
        parts = np.asarray(figure.subfigures(2, 2, wspace=0.05, hspace=0.05)).ravel()
        for part, row in zip(parts, rows, strict=True):
            means = _MEANS[str(row[0])]
            part.suptitle(f"“{row[0]}”\n{row[1]}: U_A {row[2]:.2f}, U_E {row[3]:.2f} nats", fontsize=10)
            simplex, bars = part.subplots(1, 2, width_ratios=(1.2, 1))
            _draw_simplex(simplex, means)
            for agent, mean in enumerate(means):
                places = [cluster + 0.27 * (agent - 1) for cluster in range(3)]
                bars.bar(places, mean, 0.25, color=_COLOURS[agent], alpha=0.8, label=f"agent {agent + 1}")
            bars.set(xticks=range(3), xticklabels=["c1", "c2", "c3"], ylim=(0, 1), ylabel="probability")
        figure.axes[5].legend(fontsize=8, loc="upper right")  # where there is no bar

    return Experiment(
        name=_NAME,
        title="The four quadrants of U_A and U_E over three semantic clusters",
        columns=_COLUMNS,
        rows=tuple(rows),
        paper=paper_rows(_NAME, _COLUMNS),
        label=paper_label(_NAME),
        draw=draw,
        settings={
            "distributions": f"three agents, Dirichlets of concentration {_CONCENTRATION:g}, {_N_DRAWS} draws",
            "seed": str(seed),
            "regime": "above 0.5 nats of U_A and 0.3 nats of U_E is high",
        },
        notes=(
            "An illustration: no model is asked. Left to right U_A grows, top row high U_E, as in the paper's figure.",
        ),
        width=12.0,
        height=8.0,
    )


def _draw_simplex(axes: Axes, means: list[tuple[float, ...]]) -> None:
    """Draws the mean density of the agents' Dirichlets; the corners are the clusters."""
    n = 60
    inside = [(i, j, n - i - j) for i in range(1, n) for j in range(1, n - i)]
    points: FloatArray = np.array(inside) / n
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    at = points @ corners
    density = np.mean([dirichlet(_CONCENTRATION * np.array(mean)).pdf(points.T) for mean in means], axis=0)
    axes.tricontourf(at[:, 0], at[:, 1], np.sqrt(density), levels=20, cmap="viridis")
    axes.plot(*np.vstack([corners, corners[:1]]).T, color="black", linewidth=1)
    for (x, y), name, below in zip(corners, ("c1", "c2", "c3"), (True, True, False), strict=True):
        axes.text(x, y + (-0.04 if below else 0.02), name, ha="center", va="top" if below else "bottom", fontsize=9)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.margins(0.12)
