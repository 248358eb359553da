"""Owns the experiment on what each stage costs as a group grows: pairs asked, iterations, time."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coe_agents.clustering import BidirectionalEntailment, CachedEntailment
from coe_agents.clustering.entailment_wrappers import CountingEntailment
from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.scoring.scored_question import ScoringSetup
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.experiment import Cell, Experiment, Row
from coe_agents.experiments.groups import of_agents
from coe_agents.policy.statistics import Statistics
from coe_agents.uncertainty import coordinate

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
