"""Owns the experiment `scaling`: CoE and its baselines as agents are added."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.experiments.groups import judge_group, of_agents, order_by_responses

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
    most_groups: int = 12,
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
        found = []
        for names in groups:
            group = judge_group(common, names, setup)
            found.append([group.correct.mean(), group.n_ties, *map(group.auroc, _METRICS.values())])
        figures = np.array(found)
        less = figures[:, 2] - figures[:, 3]  # CoE, Semantic Entropy
        rows.append((size, len(groups), *map(plain, (*figures.mean(axis=0), less.mean(), less.min(), less.max()))))

    return Experiment(
        name="scaling",
        title="AUROC as agents are added",
        columns=_COLUMNS,
        rows=tuple(rows),
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
    )


def _choose_groups(agents: Sequence[str], size: int, *, seed: int, most: int) -> list[tuple[str, ...]]:
    every = list(combinations(agents, size))
    if len(every) <= most:
        return every
    generator = np.random.default_rng((seed, size))
    return [every[place] for place in sorted(generator.choice(len(every), most, replace=False))]
