"""Owns the experiments on the size of a group: `scaling` of the scores, and `cost` of each stage."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from coe_agents.clustering import BidirectionalEntailment, CachedEntailment
from coe_agents.clustering.entailment_wrappers import CountingEntailment
from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.scoring.scored_question import ScoringSetup
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.experiment import Cell, Experiment, Row, plain
from coe_agents.experiments.groups import judge_group, of_agents, order_by_responses
from coe_agents.policy.statistics import Statistics
from coe_agents.uncertainty import coordinate

_METRICS: Mapping[str, str] = {
    "CoE": "coe",
    "Semantic Entropy": "semantic_entropy",
    "U_E": "epistemic",
    "vote share": "vote_share",
    "Regular Entropy": "regular_entropy",
}
_SCALES = ("agents", "groups", "accuracy", "ties", *_METRICS, "CoE less Semantic Entropy", "least", "most")


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
        columns=_SCALES,
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


_COSTS = (
    "models",
    "responses",
    "tokens",
    "K m^2, the paper's",
    "(K m)^2",
    "pairs asked",
    "most pairs asked",
    "clusters",
    "most clusters",
    "iterations",
    "clustering ms",
    "Algorithm 1 ms",
)


def cost(
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    *,
    twins: Sequence[str] = (),
) -> Experiment:
    """Returns means per question for groups of 1, 2, ... agents: pairs asked of the entailment model, iterations, time.

    Where there are `twins`, second instances of the agents, all of them with all agents are the last group. A
    cache of entailments is left out, so that the time is that of judging.
    """
    rows: list[Row] = []
    every = (*agents, *twins)
    for size in dict.fromkeys((*range(1, len(agents) + 1), len(every))):
        chosen = of_agents(questions, every[:size])
        counting, clusterer = None, setup.clusterer
        if isinstance(clusterer, BidirectionalEntailment):
            model = clusterer.model
            counting = CountingEntailment(model.model if isinstance(model, CachedEntailment) else model)
            clusterer = clusterer.with_model(counting)
        rows.append(_row(size, chosen, replace(setup, clusterer=clusterer, entailment=None), counting))

    return Experiment(
        name="cost",
        title="Entailment pairs and iterations, against the paper's complexity section",
        columns=_COSTS,
        rows=tuple(rows),
        settings={"models": " + ".join(every)},
        notes=(
            "Means a question. The paper counts K m^2 pairs, as if each model had clusters of its own.",
            "CoE's shared space may take up to (K m)^2. Equal responses are asked once, and a match ends the search.",
            "The paper says m <= 10, T <= 10 and l <= 10. Algorithm 1 here is the literal one.",
        ),
    )


def _row(
    size: int, questions: Sequence[SampledQuestion], setup: ScoringSetup, counting: CountingEntailment | None
) -> Row:
    pairs, found = list[int](), list[Statistics]()
    clustering = 0.0
    for question in questions:
        before, start = counting.n_pairs if counting else 0, time.perf_counter()
        found += iter_statistics([question], clusterer=setup.clusterer, weighting=setup.weighting)
        clustering += time.perf_counter() - start
        pairs.append(counting.n_pairs - before if counting else 0)
    start = time.perf_counter()
    iterations = [coordinate(each.distributions).n_iterations for each in found]
    coordinating = time.perf_counter() - start
    responses = [len(each.responses) for each in found]
    tokens = [response["n_tokens"] for each in found for response in each.responses]
    clusters = [len(each.measurement.support) for each in found]
    known: list[Cell] = [float(np.mean(pairs)), max(pairs)] if counting else [None, None]
    return (
        size,
        float(np.mean(responses)),
        None if None in tokens else sum(count or 0 for count in tokens) / len(found),
        float(np.mean([count**2 / size for count in responses])),
        float(np.mean([count**2 for count in responses])),
        *known,
        float(np.mean(clusters)),
        max(clusters),
        float(np.mean(iterations)),
        1000 * clustering / len(found),
        1000 * coordinating / len(found),
    )
