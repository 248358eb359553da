"""Owns the experiment `normalisation`: U_E with and without canonical answers, the paper's second limitation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from coe_agents.clustering import Clusterer
from coe_agents.evaluation import SampledQuestion, ScoringSetup
from coe_agents.evaluation.samples.line import Sample
from coe_agents.experiments.experiment import Experiment, Row, plain
from coe_agents.experiments.groups import judge_group

Span = Callable[[SampledQuestion, Sample], str]
"""From a response to the answer inside it."""

_COLUMNS = ("clusterer", "compared", "U_A", "U_E", "CoE", "AUROC of U_E", "AUROC of CoE", "accuracy", "ties")


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
        columns=_COLUMNS,
        n_keys=2,
        rows=tuple(rows),
        label="Limitations, the second",
        settings={"group": " + ".join(three)},
        notes=("The group's answer depends on the clusters, so accuracy may differ between the rows.",),
    )


def _replace_answers(question: SampledQuestion, span: Span) -> SampledQuestion:
    responses = tuple(cast("Sample", {**each, "answer": span(question, each)}) for each in question.responses)
    return replace(question, responses=responses)
