"""Owns the experiments on the paper's two limitations: `contamination`, and `normalisation` of answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from coe_agents.clustering import Clusterer
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.evaluation import SampledQuestion
from coe_agents.evaluation.scoring.scored_question import ScoringSetup
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.experiments.groups import judge_group
from coe_agents.types import Sample
from coe_agents.uncertainty import entropy

Beliefs = Callable[[str, str], Mapping[str, float] | None]
"""From a question's id and an agent's name to its belief: probabilities of answers, nothing if it never saw the fact;
None where the belief is not known."""

_STATES = ("sure and right", "sure and wrong", "hesitates", "never saw it")
_CONTAMINATION = ("state", "units", "share of units", "mean SE", "share of SE", "entropy of belief", "accuracy", "ties")


def contamination(
    questions: Sequence[SampledQuestion], agents: Sequence[str], setup: ScoringSetup, beliefs: Beliefs
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
                believed = float(entropy(np.array(list(belief.values())))) if belief else float("nan")
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

_NORMALISATION = ("clusterer", "compared", "U_A", "U_E", "CoE", "AUROC of U_E", "AUROC of CoE", "accuracy", "ties")


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
        "whole response": [_replace_answers(question, lambda _, response: response["text"]) for question in questions],
        "canonical answer": [_replace_answers(question, span) for question in questions],
    }
    rows: list[Row] = []
    for name, clusterer in clusterers.items():
        for way, compared in ways.items():
            group = judge_group(compared, three, replace(setup, clusterer=clusterer, entailment=None))
            means = group.means("aleatoric", "epistemic", "coe")
            ranked = [plain(group.auroc(score)) for score in ("epistemic", "coe")]
            rows.append((name, way, *means, *ranked, float(group.correct.mean()), group.n_ties))

    return Experiment(
        name="normalisation",
        title="Clustering whole responses and clustering canonical answers",
        columns=_NORMALISATION,
        n_keys=2,
        rows=tuple(rows),
        settings={"group": " + ".join(three)},
        notes=("The group's answer depends on the clusters, so accuracy may differ between the rows.",),
    )


def _replace_answers(question: SampledQuestion, span: Span) -> SampledQuestion:
    responses = tuple(cast("Sample", {**each, "answer": span(question, each)}) for each in question.responses)
    return replace(question, responses=responses)
