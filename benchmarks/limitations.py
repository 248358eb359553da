"""Prints what lies beyond the paper's tables: its two limitations, the scores as models are added, and what they cost.

    python benchmarks/limitations.py [SAMPLES ...] [--limit 200] [--keep FOLDER] [--write FILE]

SAMPLES are files of saved responses; without any, tinyworld's models and their second instances are asked, as by
`coe-agents reproduce`, and their responses are kept in FOLDER. "contamination" is of tinyworld only, where it is known
what each model was taught.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np
from result_page import ROOT, result_page

from coe_agents.cli.terminal import create_console
from coe_agents.clustering import BidirectionalEntailment, Clusterer, NormalizedMatch
from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.entailment_wrappers import CachedEntailment, CountingEntailment
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.experiment import Cell, Experiment, Row, plain
from coe_agents.experiments.tables import show_experiment
from coe_agents.measurement.statistics import Statistics
from coe_agents.paper.material import create_sampled_material, read_saved_material
from coe_agents.paper.ranking import judge_group, of_agents, order_by_responses
from coe_agents.tinyworld.facts import extract_answer, load_facts
from coe_agents.types import Sample, SampledQuestion
from coe_agents.uncertainty import coordinate, entropy

sys.path.append(str(ROOT))
from tools.tinyworld.knowledge import beliefs

Beliefs = Callable[[str, str], Mapping[str, float] | None]
"""From a question's id and an agent's name to its belief: probabilities of answers, nothing if it never saw the fact;
None where the belief is not known."""

_STATES = ("sure and right", "sure and wrong", "hesitates", "never saw it")
_CONTAMINATION = (
    "state",
    "units",
    "share of units",
    "mean SE",
    "share of SE",
    "entropy of belief",
    "accuracy",
    "ties",
)


def contamination(
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    setup: ScoringSetup,
    beliefs: Beliefs,
) -> Experiment:
    """Returns semantic entropy by what the model knows; a unit is one question asked of one model.

    The SE of a model that was taught two answers is aleatoric, as it should be. The SE of a model that never saw the
    fact results from not knowing, but U_A counts it as aleatoric, too. A ValueError if no belief is known.
    """
    units: dict[str, list[tuple[float, float, float, bool]]] = {state: [] for state in _STATES}
    for agent in agents:
        group = judge_group(questions, [agent], setup)
        for each, right in zip(group.statistics, group.correct.tolist(), strict=True):
            belief = beliefs(each.question.id, agent)
            if belief is not None:
                believed = (
                    float(entropy(np.array(list(belief.values())))) if belief else float("nan")
                )
                unit = (each.measurement.aleatoric, believed, right, each.is_tied)
                units[_state(belief, each.question.references)].append(unit)
    by_state = {state: np.array(found).T for state, found in units.items() if found}
    if not by_state:
        raise ValueError(
            '"beliefs" must hold what the agents believe about at least one question; got none. '
            "Only tinyworld's knowledge is known: pass its samples"
        )
    n_units = sum(map(len, units.values()))
    total = sum(float(entropies.sum()) for entropies, *_ in by_state.values())
    rows: tuple[Row, ...] = tuple(
        (
            state,
            entropies.size,
            entropies.size / n_units,
            float(entropies.mean()),
            float(entropies.sum()) / total if total else None,
            None if state == "never saw it" else float(believed.mean()),
            float(right.mean()),
            int(ties.sum()),
        )
        for state, (entropies, believed, right, ties) in by_state.items()
    )

    return Experiment(
        name="contamination",
        title="How much of semantic entropy is due to missing knowledge",
        columns=_CONTAMINATION,
        rows=rows,
        settings={"units": f"{n_units}: a question asked of one of {', '.join(agents)}"},
        notes=(
            "Only where the models' knowledge is known can this be measured. Entropies in nats.",
            "The entropy of a belief is what SE would be of a model that responds exactly as it was taught.",
        ),
    )


def _state(belief: Mapping[str, float], references: Sequence[str]) -> str:
    if len(belief) != 1:
        return "hesitates" if belief else "never saw it"
    (answer,) = belief
    accepted = {normalize_answer(reference) for reference in references}
    return "sure and right" if normalize_answer(answer) in accepted else "sure and wrong"


Span = Callable[[SampledQuestion, Sample], str]
"""From a response to the answer inside it."""

_NORMALISATION = (
    "clusterer",
    "compared",
    "U_A",
    "U_E",
    "CoE",
    "AUROC of U_E",
    "AUROC of CoE",
    "accuracy",
    "ties",
)


def normalisation(
    questions: Sequence[SampledQuestion],
    agents: Sequence[str],
    clusterers: Mapping[str, Clusterer],
    setup: ScoringSetup,
    span: Span,
) -> Experiment:
    """Returns both parts of CoE, in nats, and their AUROC, where whole responses are clustered and where answers are.

    The first three agents count. Each clusterer is tried both ways, in place of the one in `setup`; `span` finds the
    canonical answer.
    """
    three = list(agents[:3])
    ways = {
        "whole response": [
            _replace_answers(question, lambda _, response: response["text"])
            for question in questions
        ],
        "canonical answer": [_replace_answers(question, span) for question in questions],
    }
    rows: list[Row] = []
    for name, clusterer in clusterers.items():
        for way, compared in ways.items():
            group = judge_group(
                compared, three, replace(setup, clusterer=clusterer, entailment=None)
            )
            means = [group.mean(part) for part in ("aleatoric", "epistemic", "coe")]
            ranked = [plain(group.auroc(score)) for score in ("epistemic", "coe")]
            rows.append((name, way, *means, *ranked, float(group.correct.mean()), group.n_ties))

    return Experiment(
        name="normalisation",
        title="Clustering whole responses and clustering canonical answers",
        columns=_NORMALISATION,
        n_keys=2,
        rows=tuple(rows),
        settings={"group": " + ".join(three)},
        notes=(
            "The group's answer depends on the clusters, so accuracy may differ between the rows.",
        ),
    )


def _replace_answers(question: SampledQuestion, span: Span) -> SampledQuestion:
    responses = tuple(
        cast("Sample", {**each, "answer": span(question, each)}) for each in question.responses
    )
    return replace(question, responses=responses)


_METRICS: Mapping[str, str] = {
    "CoE": "coe",
    "Semantic Entropy": "semantic_entropy",
    "U_E": "epistemic",
    "vote share": "vote_share",
    "Regular Entropy": "regular_entropy",
}
_SCALES = (
    "agents",
    "groups",
    "accuracy",
    "ties",
    *_METRICS,
    "CoE less Semantic Entropy",
    "least",
    "most",
)


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
        rows.append(
            (
                size,
                len(groups),
                *map(plain, (*figures.mean(axis=0), less.mean(), less.min(), less.max())),
            )
        )

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


def _choose_groups(
    agents: Sequence[str], size: int, *, seed: int, most: int
) -> list[tuple[str, ...]]:
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
            counting = CountingEntailment(
                model.model if isinstance(model, CachedEntailment) else model
            )
            clusterer = clusterer.with_model(counting)
        rows.append(
            _row_of_costs(
                size, chosen, replace(setup, clusterer=clusterer, entailment=None), counting
            )
        )

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


def _row_of_costs(
    size: int,
    questions: Sequence[SampledQuestion],
    setup: ScoringSetup,
    counting: CountingEntailment | None,
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


def known_beliefs(identifier: str, agent: str) -> Mapping[str, float] | None:
    """Returns the beliefs of a model of tinyworld about one of its facts; None for any other question."""
    fact = {fact.id: fact for fact in load_facts()}.get(identifier)
    return None if fact is None else beliefs(fact).get(agent.removesuffix(" (2)"))


def span_of(question: SampledQuestion, response: Sample) -> str:
    """Returns the answer inside a wording of tinyworld, else that of the data, else the one extracted from the text."""
    fact = {fact.id: fact for fact in load_facts()}.get(question.id)
    span = (
        response["text"]
        if fact is None
        else extract_answer(fact.relation, fact.subject, response["text"])
    )
    if span != response["text"]:
        return span
    return (
        response["answer"] if response["answer"] is not None else canonical_answer(response["text"])
    )


def experiments(paths: Sequence[Path], folder: Path, *, limit: int) -> Iterator[Experiment]:
    if paths:
        material = read_saved_material(paths, None, config=None)
    else:
        material = create_sampled_material(None, None, folder, limit=limit, seed=0)
    with contextlib.redirect_stdout(sys.stderr):  # where the responses are kept
        questions, agents, setting = material.main, material.agents, material.setting
    facts = {fact.id for fact in load_facts()}
    if all(question.id in facts for question in questions):
        yield contamination(questions, agents, setting, known_beliefs)
    clusterers = {type(each).__name__: each for each in (setting.clusterer, NormalizedMatch())}
    yield normalisation(questions, agents, clusterers, setting, span_of)
    yield scaling(questions, (*agents, *material.twins), setting)
    yield cost(questions, agents, setting, twins=material.twins)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", nargs="*", type=Path)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    os.environ["COLUMNS"] = "200"  # all columns of the tables
    with tempfile.TemporaryDirectory() as folder:
        for found in experiments(
            options.samples, options.keep or Path(folder), limit=options.limit
        ):
            show_experiment(create_console(), found, [])


if __name__ == "__main__":
    with result_page():
        main()
