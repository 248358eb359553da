"""Owns the experiment `scaling`: CoE and its baselines as agents are added."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.experiments.groups import judge_group, of_agents, order_by_responses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_GROUPS = 12
_METRICS: Mapping[str, str] = {
    "CoE": "coe",
    "Semantic Entropy": "semantic_entropy",
    "U_E": "epistemic",
    "vote share": "vote_share",
    "Regular Entropy": "regular_entropy",
}
_COLUMNS = ("agents", "groups", "accuracy", "ties", *_METRICS, "CoE less Semantic Entropy", "least", "most")


def scaling(
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    *,
    seed: int = 0,
    most_groups: int = MOST_GROUPS,
) -> Experiment:
    """Returns mean AUROC over groups of each size; the last columns are over the groups of that size.

    Questions to which all agents responded count, so that all groups answer the same. Of a size with more groups,
    `most_groups` are chosen by the seed, whatever the agents' names and order.
    """
    common = of_agents(questions, agents)
    ordered = order_by_responses(agents, common)
    rows: list[Row] = []
    for size in range(1, len(agents) + 1):
        groups = _choose_groups(ordered, size, seed=seed, most=most_groups)
        accuracies: list[float] = []
        ties: list[int] = []
        scores: dict[str, list[float]] = {name: [] for name in _METRICS}
        for names in groups:
            group = judge_group(common, names, setup)
            accuracies.append(float(group.correct.mean()))
            ties.append(group.n_ties)
            for name, estimator in _METRICS.items():
                scores[name].append(group.auroc(estimator))
        less = np.subtract(scores["CoE"], scores["Semantic Entropy"])
        means = [plain(float(np.mean(scores[name]))) for name in _METRICS]
        spread = [plain(float(each)) for each in (less.mean(), less.min(), less.max())]
        rows.append((size, len(groups), float(np.mean(accuracies)), float(np.mean(ties)), *means, *spread))

    def draw(figure: "Figure") -> None:
        ranks, margin = figure.subplots(1, 2)
        sizes = np.array([row[0] for row in rows], dtype=float)
        for name, marker in zip(_METRICS, "os^vD", strict=True):
            heights = _floats(rows, name)
            if not np.isnan(heights).all():
                ranks.plot(sizes, heights, marker=marker, label=name)
        ranks.plot(sizes, _floats(rows, "accuracy"), ":", color="grey", label="accuracy")
        ranks.set_ylabel("AUROC, mean over the groups")
        ranks.legend(fontsize=8)
        margin.fill_between(sizes, _floats(rows, "least"), _floats(rows, "most"), alpha=0.25, label="least to most")
        margin.plot(sizes, _floats(rows, "CoE less Semantic Entropy"), "o-", label="mean")
        margin.axhline(0.0, color="grey", linestyle=":")
        margin.set_ylabel("AUROC of CoE less Semantic Entropy's")
        margin.legend(fontsize=8)
        for axes in (ranks, margin):
            axes.set_xlabel("agents")
            axes.set_xticks(sizes)

    return Experiment(
        name="scaling",
        title="AUROC as agents are added",
        columns=_COLUMNS,
        rows=tuple(rows),
        draw=draw,
        settings={
            "agents": ", ".join(agents),
            "questions": f"{len(common)}, to which all responded",
            "groups": f"all of a size, or {most_groups} drawn by seed {seed}",
        },
        notes=(
            "What counts as right is the group's own answer, so each size has its own labels and accuracy.",
            "Metrics are means over the agents, but CoE, U_E and the vote share, which are the group's.",
            "Accuracy and ties are means over the groups; a tie counts by the share of its answers that is right.",
        ),
        width=12.0,
    )


def _choose_groups(agents: Sequence[str], size: int, *, seed: int, most: int) -> list[tuple[str, ...]]:
    every = list(combinations(agents, size))
    if len(every) <= most:
        return every
    generator = np.random.default_rng((seed, size))
    return [every[place] for place in sorted(generator.choice(len(every), most, replace=False))]


def _floats(rows: Sequence[Row], column: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    place = _COLUMNS.index(column)
    return np.array([np.nan if row[place] is None else row[place] for row in rows], dtype=np.float64)
